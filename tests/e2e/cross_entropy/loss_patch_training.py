"""loss_patch_training.py [cpu|cuda] [PATTERN] - with vramscope.patch_loss, Hugging Face models train as they do without."""
import sys
import tempfile

import torch
import transformers
from loss_patch_kit import FAMILIES, furthest, make, text, train

import vramscope
from cross_entropy_binding_kit import DEVICE, main


def model_of(name, dtype=torch.float32):
    return make(name, dtype, DEVICE)


def patched(name, dtype=torch.float32):
    model = model_of(name, dtype)
    vramscope.patch_loss(model)
    return model


def test_fifty_steps_have_the_losses_of_fifty_without_it():
    for name in FAMILIES:
        exact, fused = train(model_of(name), 50, batch=4, device=DEVICE), train(patched(name), 50, batch=4, device=DEVICE)
        pair = model_of(name, torch.bfloat16), patched(name, torch.bfloat16)
        rounded, fused16 = (train(model, 50, batch=4, device=DEVICE) for model in pair)
        apart, apart16, off = furthest(exact, fused), furthest(rounded, fused16), furthest(exact, rounded)
        print(f"      {name}: {exact[0]:.3f} to {exact[-1]:.3f}, apart by {apart:.1e}; bf16 by {apart16:.1e}, itself {off:.1e} off fp32")
        assert apart < 1e-4 and apart16 < 1e-2, f"{name}: apart by {apart:.1e}, bf16 by {apart16:.1e}"
        assert exact[-1] < 0.97 * exact[0], f"{name} learns nothing: {exact[0]:.4f} to {exact[-1]:.4f}, a factor of {exact[-1] / exact[0]:.4f}"
        assert fused != exact, f"{name}: the same bits, as if the patch did nothing"


def test_trainer_trains_as_before():
    def losses(make_model):
        model = make_model("Qwen2")
        rows = [{name: row.cpu() for name, row in zip(("input_ids", "labels"), pair)} for step in range(8) for pair in zip(*text(step).values())]
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                folder, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=6, logging_steps=1, report_to=[],
                learning_rate=3e-3, use_cpu=DEVICE.type == "cpu", disable_tqdm=True, save_strategy="no", eval_strategy="steps", eval_steps=3,
            )  # fmt: skip
            trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:4])
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        log = trainer.state.log_history
        return [row["loss"] for row in log if "loss" in row], [row["eval_loss"] for row in log if "eval_loss" in row]

    for plain, fused in zip(losses(model_of), losses(patched)):
        assert len(plain) >= 2 and furthest(plain, fused) < 2e-4, (plain, fused)


if __name__ == "__main__":
    sys.exit(main(globals()))
