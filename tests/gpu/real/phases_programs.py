"""phases_programs.py NAME OUT.history.gz | --list - training programs as people write them, small, unmarked. Without a GPU a dry run
on the CPU.
"""

import importlib.util
import os
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from bench_models import Block  # noqa: E402

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SCALE = 8 if GPU else 1
VOCABULARY, WIDTH, LENGTH, BATCH = 1024 * SCALE, 64 * SCALE, 32 * SCALE, 4
STEPS = 4


# ---- models ----


class Backbone(nn.Module):
    def __init__(self, checkpoint=None):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, 4) for _ in range(2))
        self.checkpoint = checkpoint  # use_reentrant, None: no checkpointing

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            if self.checkpoint is None or not self.training:
                x = block(x)
            else:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.checkpoint)
        return x


class Gpt(nn.Module):
    """As nanoGPT's: tied output layer, the loss inside, generate without gradients."""

    def __init__(self, **options):
        super().__init__()
        self.transformer = Backbone(**options)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens, targets=None):
        x = self.transformer(tokens)
        logits = self.lm_head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    @torch.no_grad()
    def generate(self, tokens, count):
        for _ in range(count):
            logits, _ = self(tokens[:, -LENGTH:])
            tokens = torch.cat((tokens, F.softmax(logits[:, -1], -1).multinomial(1)), 1)
        return tokens


def batch(seed=0, device=DEVICE):
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(seed)).to(device)
    return tokens[:, :-1], tokens[:, 1:]


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": tokens, "labels": tokens}


# ---- programs: each returns how many steps it made ----


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = [model(*batch(9))[1].item() for _ in range(2)]
    model.train()
    return losses


def nanogpt(checkpoint=None):
    """Accumulation, clipping, an estimate of the loss and a sample now and then, autocast with a gradient scaler."""
    model = Gpt(checkpoint=checkpoint).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(DEVICE, enabled=GPU)
    for step in range(STEPS):
        if step % 2 == 0:
            estimate_loss(model)
        for micro in range(2):
            with torch.autocast(DEVICE, torch.bfloat16):
                _, loss = model(*batch(micro))
            scaler.scale(loss / 2).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
    model.generate(batch()[0][:, :4], 3)
    return STEPS


def nanogpt_checkpoint():
    return nanogpt(checkpoint=False)


def nanogpt_reentrant():
    return nanogpt(checkpoint=True)


def split():
    """The output layer beside the model, the loss with a teacher's logits."""
    backbone, lm_head, frozen = Backbone().to(DEVICE), nn.Linear(WIDTH, VOCABULARY).to(DEVICE), Gpt().to(DEVICE).eval()
    teacher = frozen.requires_grad_(False)
    opt = torch.optim.AdamW([*backbone.parameters(), *lm_head.parameters()], lr=1e-3)
    for _ in range(STEPS):
        tokens, targets = batch()
        hidden = backbone(tokens)
        logits = lm_head(hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        with torch.no_grad():
            wanted = teacher(tokens)[0]
        loss = loss + F.kl_div(logits.log_softmax(-1), wanted.softmax(-1), reduction="batchmean")
        loss.backward()
        opt.step()
        opt.zero_grad()
    return STEPS


def compiled():
    """A compiled model calls no inner module: no logits, and a word that they are not told.  (Not in a dry run: its
    dispatch mode keeps Dynamo from compiling.)"""
    model = torch.compile(Gpt().to(DEVICE), backend="inductor" if GPU else "aot_eager")
    return train_plainly(model, lambda tokens, targets: model(tokens, targets)[1])


def function():
    """The output layer as F.linear."""
    backbone = Backbone().to(DEVICE)

    def loss(tokens, targets):
        logits = F.linear(backbone(tokens), backbone.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return train_plainly(backbone, loss)


def train_plainly(model, loss):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        loss(*batch()).backward()
        opt.step()
        opt.zero_grad()
    return STEPS


def dpo():
    policy, reference = Gpt().to(DEVICE), Gpt().to(DEVICE).eval().requires_grad_(False)
    opt = torch.optim.AdamW(policy.parameters(), lr=1e-4)

    def likelihood(logits, targets):
        return logits.log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1).sum(-1)

    for _ in range(STEPS):
        tokens, targets = batch()
        ours = likelihood(policy(tokens)[0], targets)
        with torch.no_grad():
            theirs = likelihood(reference(tokens)[0], targets)
        margin = (ours - theirs).view(2, -1)
        (-F.logsigmoid(0.1 * (margin[0] - margin[1])).mean()).backward()
        opt.step()
        opt.zero_grad()
    return STEPS


def cnn():
    """A convolutional network in half precision; the scaler skips the first steps."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 1000),
    ).to(DEVICE)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**20)
    images, labels = torch.randn(8, 3, 8 * SCALE, 8 * SCALE).to(DEVICE), torch.arange(8).to(DEVICE)
    for _ in range(10):
        with torch.autocast(DEVICE, torch.float16 if GPU else torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    with torch.inference_mode():
        model.eval()
        evaluate(model, images)
    return 10


def evaluate(model, images):
    return model(images).argmax(-1)


def gan():
    make = nn.Sequential(nn.Linear(32, 256 * SCALE), nn.ReLU(), nn.Linear(256 * SCALE, 784)).to(DEVICE)
    judge = nn.Sequential(nn.Linear(784, 256 * SCALE), nn.LeakyReLU(0.2), nn.Linear(256 * SCALE, 1)).to(DEVICE)
    make_opt, judge_opt = (torch.optim.Adam(m.parameters(), lr=2e-4) for m in (make, judge))
    real, one, zero = (x.to(DEVICE) for x in (torch.randn(64, 784), torch.ones(64, 1), torch.zeros(64, 1)))
    for _ in range(STEPS):
        fake = make(torch.randn(64, 32).to(DEVICE))
        loss = F.binary_cross_entropy_with_logits(judge(real), one) + F.binary_cross_entropy_with_logits(judge(fake.detach()), zero)
        judge_opt.zero_grad()
        loss.backward()
        judge_opt.step()
        make_opt.zero_grad()
        F.binary_cross_entropy_with_logits(judge(fake), one).backward()
        make_opt.step()
    return STEPS


def lbfgs():
    model = nn.Sequential(nn.Linear(64, 256 * SCALE), nn.Tanh(), nn.Linear(256 * SCALE, 1)).to(DEVICE)
    opt = torch.optim.LBFGS(model.parameters(), max_iter=20, history_size=5, line_search_fn="strong_wolfe")
    x = torch.randn(256, 64).to(DEVICE)

    def closure():
        opt.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        opt.step(closure)
    return STEPS


# ---- trainers ----


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2 * LENGTH, pad_token_id=0)
    return LlamaForCausalLM(config)


def hf(lora=False, **options):
    """The Hugging Face Trainer: accumulation, checkpointing, evaluation, and a sample by `generate` after each step."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    model = llama()
    if lora:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
        model.enable_input_require_grads()

    class Sample(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **_):
            training = model.training
            model.eval()
            model.generate(input_ids=batch()[0][:1, :4].to(model.device), max_new_tokens=3, do_sample=False)
            model.train(training)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, max_steps=STEPS, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                      per_device_eval_batch_size=2, eval_strategy="steps", eval_steps=2, save_strategy="no", report_to=[],
                                      disable_tqdm=True, logging_strategy="no", bf16=GPU, use_cpu=not GPU, dataloader_pin_memory=False,
                                      **options)
        data = Tokens()
        Trainer(model, arguments, train_dataset=data, eval_dataset=torch.utils.data.Subset(data, range(4)), callbacks=[Sample()]).train()
    return STEPS


def hf_trainer():
    return hf()


def hf_checkpoint():
    return hf(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False})


def hf_lora():
    return hf(lora=True, gradient_checkpointing=True)


def hf_accelerate():
    """A loop of one's own around accelerate."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=not GPU, mixed_precision="bf16", gradient_accumulation_steps=2)
    model = llama()
    model, opt, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                                             torch.utils.data.DataLoader(Tokens(), batch_size=2))
    for i, item in enumerate(loader):
        if i == 2 * STEPS:
            break
        with accelerator.accumulate(model):
            accelerator.backward(model(**item).loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
    return STEPS


def lightning():
    """Lightning runs the whole iteration in the optimizer's closure, and its module calls the output layer itself."""
    import logging

    import lightning as L

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.backbone, self.lm_head = Backbone(), nn.Linear(WIDTH, VOCABULARY)

        def loss(self, item):
            hidden = self.backbone(item["input_ids"])
            logits = self.lm_head(hidden)
            return F.cross_entropy(logits.flatten(0, 1), item["labels"].flatten())

        def training_step(self, item, index):
            return self.loss(item)

        def validation_step(self, item, index):
            self.loss(item)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_steps=STEPS, val_check_interval=2, limit_val_batches=1, accelerator="gpu" if GPU else "cpu", devices=1,
                        precision="bf16-mixed", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    loader = torch.utils.data.DataLoader(Tokens(), batch_size=2)
    trainer.fit(Module(), loader, loader)
    return STEPS


# ---- several processes ----


def distributed(wrap):
    """One process, or as many as torchrun started."""
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):
        os.environ.setdefault(name, value)
    if GPU:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store = None if os.environ["MASTER_PORT"] != "0" else torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl" if GPU else "gloo", store=store, rank=int(os.environ["RANK"]),
                                         world_size=int(os.environ["WORLD_SIZE"]))
    model = wrap(Gpt(checkpoint=False).to(DEVICE))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        if step == 2:
            estimate_loss(model)
        for micro in range(2):
            _, loss = model(*batch(micro))
            loss.backward()
        opt.step()
        opt.zero_grad()
    torch.distributed.destroy_process_group()
    return STEPS


def ddp():
    return distributed(lambda model: nn.parallel.DistributedDataParallel(model))


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    def wrap(model):
        mesh = torch.distributed.init_device_mesh(DEVICE, (int(os.environ["WORLD_SIZE"]),))
        for block in model.transformer.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return distributed(wrap)


TRAINING = ("forward", "backward", "optimizer")
PROGRAMS = {
    nanogpt: (*TRAINING, "logits", "evaluation"),
    nanogpt_checkpoint: (*TRAINING, "logits", "evaluation"),
    nanogpt_reentrant: (*TRAINING, "logits", "evaluation"),
    split: (*TRAINING, "logits"),
    dpo: (*TRAINING, "logits"),
    compiled: TRAINING,
    function: TRAINING,
    cnn: (*TRAINING, "evaluation"),
    gan: TRAINING,
    lbfgs: TRAINING,
    hf_trainer: (*TRAINING, "logits", "evaluation"),
    hf_checkpoint: (*TRAINING, "logits", "evaluation"),
    hf_lora: (*TRAINING, "logits", "evaluation"),
    hf_accelerate: (*TRAINING, "logits"),
    lightning: (*TRAINING, "logits", "evaluation"),
    ddp: (*TRAINING, "logits", "evaluation"),
    fsdp2: ("forward", "backward", "logits", "evaluation") + (("optimizer",) if GPU else ()),  # a dry run sees no DTensor
}
UNSEEN = {compiled, function}  # their output layer is not called
LIBRARIES = {
    hf_trainer: ("transformers", "accelerate"),
    hf_checkpoint: ("transformers", "accelerate"),
    hf_lora: ("transformers", "accelerate", "peft"),
    hf_accelerate: ("transformers", "accelerate"),
    lightning: ("lightning",),
}


def main(name, out):
    import phases_history

    program = next(p for p in PROGRAMS if p.__name__ == name)
    rank = int(os.environ.get("LOCAL_RANK", 0))
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    witness = phases_history.OnGpu(rank) if GPU else phases_history.OnCpu()
    steps = program()
    out = out.replace("RANK", os.environ.get("RANK", "0"))
    events = witness.events()
    said = None
    if not GPU:
        witness.hooks._process_ends()
        with open(os.environ["PHASE_LOG"]) as log:
            said = log.read().splitlines()
    phases_history.write(out, events, program=name, steps=steps, said=said, phases=PROGRAMS[program], device=rank,
                         unseen=int(program in UNSEEN))


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        for p in PROGRAMS:
            if all(importlib.util.find_spec(library) for library in LIBRARIES.get(p, ())) and (GPU or p is not compiled):
                print(p.__name__)
    else:
        main(*sys.argv[1:])
