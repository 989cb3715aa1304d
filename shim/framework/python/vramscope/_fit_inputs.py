"""_fit_inputs - made-up data for any model of transformers: which inputs it takes follows from its forward and its config.

Tokens are drawn on the host from a fixed seed and copied for each step, as a data loader does it; nothing is padded.  A model that sees
pictures gets one with each sample, and as many places for it among the tokens as its own vision tower gives features, which is asked of the
model itself on PyTorch's meta device.
"""

import inspect

from ._fit_model import refuse


class _Maker:
    """The inputs of one model, a tensor each by its argument's name."""

    def __init__(self, config, kind, batch, length):
        import torch

        self._torch, self._config, self._kind = torch, config, kind
        self._batch = batch
        self._random = torch.Generator().manual_seed(0)
        self._takes = set(inspect.signature(kind.forward).parameters)
        self._text = config.get_text_config() if hasattr(config, "get_text_config") else config
        self._length = length or min(2048, getattr(self._text, "max_position_embeddings", None) or 2048)

    def _tokens(self, length, high=None):
        high = high or getattr(self._text, "vocab_size", None) or refuse(f"{self._config.model_type}: its config has no vocab_size")
        return self._torch.randint(0, high, (self._batch, length), generator=self._random)

    def _floats(self, *shape):
        return self._torch.randn(self._batch, *shape, generator=self._random)

    # ---- pictures ----

    def _vision(self):
        return getattr(self._config, "vision_config", self._config)

    def _side(self):
        side = getattr(self._vision(), "image_size", None) or 224
        return tuple(side) if isinstance(side, (list, tuple)) else (side, side)

    def _pixels(self):
        vision = self._vision()
        if hasattr(vision, "spatial_merge_size") and hasattr(vision, "temporal_patch_size"):  # Qwen's: patches in a row
            return self._patches(vision)
        return {"pixel_values": self._floats(getattr(vision, "num_channels", 3), *self._side())}

    def _patches(self, vision):
        patch, merge = vision.patch_size, vision.spatial_merge_size
        side = max(448 // (patch * merge), 1) * merge
        width = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
        rows = self._batch * side * side
        pixels = self._torch.randn(rows, width * vision.temporal_patch_size * patch * patch, generator=self._random)
        return {"pixel_values": pixels, "image_grid_thw": self._torch.tensor([[1, side, side]] * self._batch)}

    def _features(self, pixels):
        """How many places of a sample's tokens its picture takes."""
        torch = self._torch
        if "image_grid_thw" in pixels:
            return int(pixels["image_grid_thw"][0].prod()) // self._vision().spatial_merge_size ** 2
        with torch.device("meta"), torch.no_grad():
            model = self._kind._from_config(self._config)
            inner = model if hasattr(model, "get_image_features") else model.model
            found = inner.get_image_features(pixel_values=pixels["pixel_values"].to("meta"))
        found = getattr(found, "pooler_output", found)
        parts = found if isinstance(found, (list, tuple)) else [found]
        return sum(p.shape[:-1].numel() for p in parts) // self._batch

    def _picture_among_tokens(self):
        place = getattr(self._config, "image_token_id", None) or getattr(self._config, "image_token_index", None)
        pixels = self._pixels()
        try:
            count = self._features(pixels)
        except Exception as e:
            refuse(f"{self._config.model_type}: how many tokens a picture has can't be asked ({type(e).__name__}: {str(e)[:80]}); give a program of your own")
        if count >= self._length:
            refuse(f"{self._config.model_type}: a picture has {count} tokens: --seq must be larger")
        tokens = self._tokens(self._length, min(place, self._text.vocab_size) if place else None)
        tokens[:, 1 : 1 + count] = place
        return {"input_ids": tokens, **pixels}

    # ---- sound ----

    def _sound(self):
        c = self._config
        if "input_features" in self._takes:
            frames = 2 * c.max_source_positions if hasattr(c, "max_source_positions") else self._length
            return {"input_features": self._floats(getattr(c, "num_mel_bins", None) or getattr(c, "input_feat_per_channel", 80), frames)}
        return {"input_values": self._floats(320 * self._length)}

    # ---- all together ----

    def _given(self):
        main = getattr(self._kind, "main_input_name", "input_ids")
        if "pixel_values" in self._takes and "input_ids" in self._takes and getattr(self._config, "image_token_id", getattr(self._config, "image_token_index", None)) is not None:
            return self._picture_among_tokens()
        if main == "pixel_values" and "input_ids" not in self._takes:
            return self._pixels()
        if main in ("input_features", "input_values"):
            return self._sound()
        given = {"input_ids": self._tokens(self._length)}
        if "pixel_values" in self._takes and hasattr(self._config, "vision_config"):  # CLIP: two towers
            given["input_ids"] = self._tokens(min(self._length, getattr(self._text, "max_position_embeddings", self._length)))
            given |= self._pixels()
        return given

    def _labels(self, given):
        torch, takes, name = self._torch, self._takes, self._kind.__name__
        if "return_loss" in takes:
            return {"return_loss": True}
        if "start_positions" in takes:
            return {k: torch.zeros(self._batch, dtype=torch.long) for k in ("start_positions", "end_positions")}
        if "labels" not in takes:
            refuse(f"{name} takes no labels: name another head in the config's architectures")
        if "SequenceClassification" in name or "ImageClassification" in name or "AudioClassification" in name:
            return {"labels": self._classes()}
        if "CTC" in name:
            return {"labels": self._tokens(max(self._length // 8, 1))}
        if "TokenClassification" in name:
            return {"labels": self._tokens(self._length, self._config.num_labels)}
        if self._config.is_encoder_decoder:
            return {"labels": self._tokens(min(self._length, getattr(self._text, "max_target_positions", self._length)))}
        return {"labels": given["input_ids"].clone()}

    def _classes(self):
        count, problem = self._config.num_labels, getattr(self._config, "problem_type", None)
        if problem == "multi_label_classification":
            return self._floats(count)
        if problem == "regression" or (problem is None and count == 1):
            return self._floats() if count == 1 else self._floats(count)
        return self._torch.randint(0, count, (self._batch,), generator=self._random)

    def batch(self):
        given = self._given()
        if "input_ids" in given and "attention_mask" in self._takes:
            given["attention_mask"] = self._torch.ones_like(given["input_ids"])
        return {**given, **self._labels(given)}


def inputs_of(config, kind, batch, length, dtype):
    """-> a function that gives the inputs of a step, on the device, floats as DTYPE.  LENGTH None: 2048, or all positions of the model if they are fewer."""
    import torch

    maker = _Maker(config, kind, batch, length)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    host = {k: v.to(dtype) if torch.is_tensor(v) and v.is_floating_point() else v for k, v in maker.batch().items()}
    return lambda: {k: v.to("cuda", non_blocking=True) if torch.is_tensor(v) else v for k, v in host.items()}
