"""loss_patch.py [cpu|cuda] [PATTERN] - vramscope.patch_loss: Hugging Face losses, gradients, what it is put together with, refusals, the way back."""
import copy
import inspect
import itertools
import sys

import torch
import transformers
from loss_patch_kit import FAMILIES, make, text

import vramscope
from vramscope import _loss as vramscope_loss
from cross_entropy_binding_kit import DEVICE, distance, main, raises


def model_of(name="Llama", dtype=torch.float32, **sizes):
    return make(name, dtype, DEVICE, **sizes)


def batch_of(step=0, **sizes):
    return text(step, device=DEVICE, **sizes)


def loss_and_gradients(model, **call):
    model.zero_grad(set_to_none=True)
    output = model(**call)
    output.loss.backward()
    return output, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def same(model, limit=2e-5, patched=None, **call):
    """Loss and every gradient of MODEL with CALL, patched, are those without."""
    want, grads = loss_and_gradients(model, **call)
    with vramscope.patch_loss(model):
        got, fused = loss_and_gradients(patched or model, **call)
    assert got.logits is None and want.logits is not None
    assert abs(got.loss - want.loss) <= 2e-6 * abs(want.loss), (got.loss, want.loss)
    assert grads.keys() == fused.keys() and grads
    for name, gradient in grads.items():
        error = distance(fused[name], gradient.double().cpu())
        assert error < limit, f"the gradient of {name} is off by {error:.1e}"
    return got


# ---- values ----


def test_gradients_are_those_without_the_patch():
    for name in FAMILIES:
        same(model_of(name), **batch_of())


def test_what_trainers_say_with_a_batch_is_heeded():
    model, call = model_of("Gemma2"), batch_of()
    ids, labels = call["input_ids"], call["labels"]
    for count in (91, torch.tensor(91), torch.tensor(91, device=DEVICE)):
        same(model, **call, num_items_in_batch=count)
    shifted = torch.randint(307, labels.shape, device=DEVICE)
    same(model, **call, shift_labels=shifted)
    same(model, input_ids=ids, labels=ids, ignore_index=5)
    same(model, input_ids=ids, labels=labels[:, -6:], logits_to_keep=6)
    kept = torch.tensor([1, 4, 5, 9], device=DEVICE)
    same(model, input_ids=ids, labels=labels[:, kept], logits_to_keep=kept)
    if hasattr(transformers.modeling_utils, "slice_logits_to_keep"):
        mask = torch.rand(ids.shape, device=DEVICE) < 0.5
        same(model, input_ids=ids, labels=labels[mask], logits_to_keep=mask)
    same(model, inputs_embeds=model.get_input_embeddings()(ids).detach(), labels=labels, attention_mask=torch.ones_like(ids))
    raises(ValueError, "for this input they must be", lambda: [vramscope.patch_loss(model), model(input_ids=ids, labels=labels, logits_to_keep=6)])


def test_what_else_the_output_has():
    for name in ("Llama", "GPT2"):
        model, call = model_of(name), batch_of()
        want = model(**call, output_hidden_states=True, use_cache=True)
        with vramscope.patch_loss(model):
            got = model(**call, output_hidden_states=True, use_cache=True)
            assert type(got) is type(want) and got.logits is None
            assert all(torch.equal(a, b) for a, b in zip(got.hidden_states, want.hidden_states, strict=True))
            assert got.past_key_values.get_seq_length() == want.past_key_values.get_seq_length() == 16
            plain = model(**call, return_dict=False)
            assert isinstance(plain, tuple) and torch.equal(plain[0], got.loss)
            names = list(inspect.signature(type(model).forward).parameters)[1:]
            given = [call.get(name) for name in names[: names.index("labels") + 1]]
            assert torch.equal(model(*given).loss, got.loss), "arguments by position"


def test_logits_come_where_they_are_wanted():
    model, call = model_of(), batch_of()
    want = model.eval()(**call)
    with vramscope.patch_loss(model):
        assert torch.equal(model(**call).logits, want.logits) and torch.equal(model(**call).loss, want.loss)
        assert model(**call, skip_logits=True).logits is None
        assert model.generate(call["input_ids"], max_new_tokens=3, do_sample=False).shape == (2, 19)
        model.train()
        assert model(**call).logits is None
        assert torch.equal(model(input_ids=call["input_ids"]).logits, want.logits)
        assert torch.equal(model(**call, skip_logits=False).logits, want.logits)


def test_autocast_checkpointing_and_accumulation():
    call = batch_of()
    for name in ("Qwen3", "Gemma2"):
        model = model_of(name)
        with torch.autocast(DEVICE.type, torch.bfloat16):
            want, grads = loss_and_gradients(model, **call)
            with vramscope.patch_loss(model):
                got, fused = loss_and_gradients(model, **call)
        assert abs(got.loss - want.loss) < 2e-3 * want.loss
        assert all(distance(fused[n], g.double().cpu()) < 2e-2 for n, g in grads.items())
        model.gradient_checkpointing_enable()
        same(model, **call)
        model.gradient_checkpointing_disable()
        model.zero_grad()
        vramscope.patch_loss(model)
        for step in (0, 1):
            model(**batch_of(step), num_items_in_batch=80).loss.backward()
        fused = {n: p.grad.clone() for n, p in model.named_parameters()}
        vramscope.unpatch_loss(model)
        model.zero_grad()
        for step in (0, 1):
            model(**batch_of(step), num_items_in_batch=80).loss.backward()
        assert all(distance(fused[n], p.grad.double().cpu()) < 2e-5 for n, p in model.named_parameters())


def test_a_frozen_output_layer_gets_no_gradient():
    model = model_of()
    model.lm_head.weight.requires_grad_(False)
    same(model, **batch_of())
    assert model.lm_head.weight.grad is None


# ---- it goes away again ----


def test_unpatching_leaves_nothing():
    for name in FAMILIES:
        model, call = model_of(name), batch_of()
        before = {module: dict(vars(module)) for module in model.modules()}
        want = model(**call)
        patch = vramscope.patch_loss(model)
        assert inspect.signature(model.forward) == inspect.signature(type(model).forward.__get__(model))
        assert model(**call).logits is None
        patch.unpatch()
        assert {module: dict(vars(module)) for module in model.modules()} == before
        assert model.forward.__func__ is type(model).forward
        assert torch.equal(model(**call).logits, want.logits)
        raises(ValueError, "is not patched", vramscope.unpatch_loss, model)
        with vramscope.patch_loss(model) as patch:
            raises(ValueError, "patched already", vramscope.patch_loss, model)
            vramscope.unpatch_loss(model)
        assert {module: dict(vars(module)) for module in model.modules()} == before


def test_a_copy_is_patched_and_stands_alone():
    model, call = model_of(), batch_of()
    vramscope.patch_loss(model)
    want = model(**call).loss
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.lm_head.weight.mul_(2)
    assert torch.equal(model(**call).loss, want) and not torch.equal(other(**call).loss, want)
    vramscope.unpatch_loss(model)
    assert model(**call).logits is not None and other(**call).logits is None
    loaded = model_of()
    loaded.load_state_dict(other.state_dict())
    vramscope.unpatch_loss(other)
    assert torch.equal(other(**call).loss, loaded(**call).loss)


def test_a_forward_that_accelerate_wrapped_meanwhile_runs_the_original_again():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=DEVICE.type == "cpu", mixed_precision="bf16")
    model, call = model_of(), batch_of()
    want = accelerator.prepare(model_of())(**call)
    vramscope.patch_loss(model)
    prepared = accelerator.prepare(model)
    for _ in range(2):
        got = prepared(**call)
        assert got.logits is None and abs(got.loss - want.loss) < 2e-3 * want.loss
        vramscope.unpatch_loss(prepared)
        assert torch.equal(prepared(**call).loss, want.loss) and torch.equal(prepared(**call).logits, want.logits)
        vramscope.patch_loss(prepared)
    raises(ValueError, "forward was replaced", vramscope.patch_loss, accelerator.prepare(model_of()))


# ---- what it is put together with ----


def test_compiled_in_one_graph_before_and_after():
    """transformers' own GPT-2 logs a line where it looks for its loss, which breaks the graph, unless it is told which."""
    call = batch_of()
    for name, early in (("Llama", True), ("Llama", False), ("Gemma2", True), ("GPT2", False)):
        want, grads = loss_and_gradients(model_of(name), **call)
        torch._dynamo.reset()
        model = model_of(name)
        model.loss_type = "ForCausalLM"
        if early:
            vramscope.patch_loss(model)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        if not early:
            assert compiled(**call).logits is not None
            vramscope.patch_loss(compiled)
        got, fused = loss_and_gradients(compiled, **call)
        assert got.logits is None and abs(got.loss - want.loss) < 1e-5 * want.loss
        assert all(distance(fused["_orig_mod." + n], g.double().cpu()) < 2e-5 for n, g in grads.items())
        vramscope.unpatch_loss(compiled)
        assert compiled(**call).logits is not None


def test_peft_on_the_decoder_and_a_trained_copy_of_the_output_layer():
    import peft

    for name, saved in itertools.product(("Llama", "Gemma2"), (None, ["lm_head"])):
        targets = ["q_proj", "v_proj"]
        for order in ("peft first", "patch first"):
            if order == "patch first" and saved:
                continue
            model = peft.get_peft_model(model_of(name), peft.LoraConfig(target_modules=targets, modules_to_save=saved, init_lora_weights=False))
            if order == "patch first":
                base = model_of(name)
                vramscope.patch_loss(base)
                torch.manual_seed(5)
                other = peft.get_peft_model(base, peft.LoraConfig(target_modules=targets, init_lora_weights=False))
                other.load_state_dict(model.state_dict())
                got, want = other(**batch_of()), model(**batch_of())
                assert got.logits is None and abs(got.loss - want.loss) < 1e-6 * want.loss
                vramscope.unpatch_loss(other)
                assert other(**batch_of()).logits is not None
            else:
                same(model, **batch_of())
                with vramscope.patch_loss(model), model.disable_adapter():
                    assert model(**batch_of()).logits is None


# ---- refusals ----


def test_what_it_cannot_do_is_refused_in_one_line():
    import peft

    patch, model = vramscope.patch_loss, model_of()
    raises(ValueError, "Linear is none of LlamaForCausalLM", patch, torch.nn.Linear(3, 4))
    raises(ValueError, "call linear_cross_entropy(hidden, lm_head.weight, labels)", patch, torch.nn.Linear(3, 4))
    phi = transformers.PhiForCausalLM(transformers.PhiConfig(vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2))
    raises(ValueError, "PhiForCausalLM is none of", patch, phi)
    raises(ValueError, "DistributedDataParallel", patch, torch.nn.DataParallel(model))

    class Own(transformers.LlamaForCausalLM):
        def forward(self, **arguments):
            return super().forward(**arguments)

    raises(ValueError, "not that of transformers' LlamaForCausalLM", patch, Own(model.config))
    model.loss_function = lambda logits, labels, **_: logits.sum()
    raises(ValueError, "loss_function is <lambda>", patch, model)
    lora = peft.get_peft_model(model_of(), peft.LoraConfig(target_modules=["q_proj", "lm_head"]))
    raises(ValueError, "the output layer is a peft.tuners.lora.layer.Linear", patch, lora)
    for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
        model = model_of()
        getattr(model.lm_head, register)(lambda *_: None)
        raises(ValueError, "has a hook, test_what_it_cannot_do_is_refused_in_one_line.<locals>.<lambda>", patch, model)
    model = model_of()
    model.lm_head.forward = lambda hidden: hidden
    raises(ValueError, "output layer's forward was replaced", patch, model)
    raises(TypeError, "unexpected keyword", lambda: patch(model_of(), speed="high"))
    known, vramscope_loss.KNOWN_NAMES = vramscope_loss.KNOWN_NAMES, vramscope_loss.KNOWN_NAMES - {"lm_head"}
    try:
        raises(ValueError, "has lm_head, which is unknown here", patch, model_of())
    finally:
        vramscope_loss.KNOWN_NAMES = known


def test_what_changes_after_the_patch_is_refused_at_the_call():
    import peft

    call = batch_of()
    for change, words in (
        (lambda m: m.lm_head.register_forward_hook(lambda *_: None), "has a hook"),
        (lambda m: setattr(m, "loss_function", lambda **_: None), "loss_function is <lambda>"),
        (lambda m: m.set_output_embeddings(torch.nn.Linear(32, 307, bias=False, device=DEVICE)), "was replaced after patch_loss"),
        (lambda m: m.resize_token_embeddings(320), "was replaced after patch_loss"),
        (lambda m: peft.get_peft_model(m, peft.LoraConfig(target_modules=["lm_head"])), "the output layer is a peft"),
    ):
        model = model_of()
        vramscope.patch_loss(model)
        change(model)
        raises(ValueError, words, lambda: model(**call))
        vramscope.unpatch_loss(model)
        if "hook" not in words and "loss_function" not in words:
            assert model(**call).logits is not None


if __name__ == "__main__":
    sys.exit(main(globals()))
