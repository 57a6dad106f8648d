"""Who thinks: one technology per module, all behind `base.Backend`."""
