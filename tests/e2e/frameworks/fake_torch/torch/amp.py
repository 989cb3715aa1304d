class GradScaler:
    def step(self, optimizer, *args, **kwargs):
        """Skips every step, as with gradients that are never finite."""
