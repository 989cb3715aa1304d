"""trackers.py PACKAGE PORT [HOW] - logs to an experiment tracker, and uploads a file, as its documentation says, with a server at PORT of this machine."""

import base64
import json
import os
import sys

package, url, how = sys.argv[1], "http://127.0.0.1:" + sys.argv[2], (*sys.argv[3:], "")[0]
with open("file.bin", "w") as file:
    file.write("x")


def wandb():
    os.environ.update(WANDB_BASE_URL=url, WANDB_API_KEY="local-" + "a" * 40)
    if how:
        os.environ["WANDB_MODE"] = "online"
    import wandb

    run = wandb.init(project="p", **({"mode": "online"} if how else {}))
    run.log({"loss": 1.0})
    artifact = wandb.Artifact("m", type="model")
    artifact.add_file("file.bin")
    run.log_artifact(artifact)
    run.finish()


def mlflow():
    if how == "environment":
        os.environ["MLFLOW_TRACKING_URI"] = url
    import mlflow

    if how == "client":
        client = mlflow.MlflowClient(tracking_uri=url)
        client.log_metric(client.create_run(client.create_experiment("x")).info.run_id, "loss", 1.0)
        return
    if not how:
        mlflow.set_tracking_uri(url)
    mlflow.set_experiment("e")
    with mlflow.start_run():
        mlflow.log_metric("loss", 1.0)
        mlflow.log_artifact("file.bin")


def comet_ml():
    os.environ["COMET_URL_OVERRIDE"] = url + "/clientlib/"
    import comet_ml

    if how == "existing":
        experiment = comet_ml.ExistingExperiment("a" * 25, previous_experiment="b" * 32)
    elif how == "start":
        experiment = comet_ml.start(api_key="a" * 25, project_name="p", workspace="w")
    else:
        experiment = comet_ml.Experiment("a" * 25, "p", "w")
    experiment.log_metric("loss", 1.0, step=1)
    experiment.log_asset("file.bin")
    experiment.end()


def neptune():
    token = json.dumps({"api_address": url, "api_url": url, "api_key": "k"}).encode()
    os.environ.update(NEPTUNE_API_TOKEN=base64.b64encode(token).decode(), NEPTUNE_PROJECT="a/b")
    import neptune

    run = neptune.init_project(project="a/b") if how == "project" else neptune.Run(mode="async") if how else neptune.init_run()
    run["loss"].append(1.0)
    run["file"].upload("file.bin")
    run.stop()


def clearml():
    os.environ.update(CLEARML_API_HOST=url, CLEARML_WEB_HOST=url, CLEARML_FILES_HOST=url, CLEARML_API_ACCESS_KEY="a", CLEARML_API_SECRET_KEY="b")
    from clearml import Task

    if how:
        Task.set_offline(False)
    task = Task.init("p", "t")
    task.get_logger().report_scalar("a", "loss", 1.0, 1)
    sys.stderr.write("logged\n")
    sys.stderr.flush()
    os._exit(0)  # its own end waits for ever now and then


def huggingface_hub():
    os.environ["HF_ENDPOINT"] = url
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(token="hf_a")
    api.create_repo("a/b", exist_ok=True)
    if how:
        api.preupload_lfs_files("a/b", additions=[CommitOperationAdd("file.bin", "file.bin")])
    api.upload_file(path_or_fileobj="file.bin", path_in_repo="file.bin", repo_id="a/b")


globals()[package]()
sys.stderr.write("logged\n")
