"""_adapters - a model with LoRA's adapters, as the words --lora and --qlora ask for them."""


def with_adapters(model, words, refuse, **options):
    """MODEL with adapters of WORDS, RANK[:TARGETS]; REFUSE(sentence) ends the process. OPTIONS are peft's."""
    try:
        import peft
    except ImportError:
        refuse("--lora and --qlora need the package peft: pip install peft")
    rank, _, targets = words.partition(":")
    if not rank.isdigit() or int(rank) < 1:
        refuse(f"--lora takes RANK or RANK:TARGETS, as 16:q_proj,v_proj, not '{words}'")
    return peft.get_peft_model(model, peft.LoraConfig(r=int(rank), target_modules=targets.split(",") if targets else "all-linear"), **options)
