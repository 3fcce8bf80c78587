"""Model files and checkpoints: safetensors with a JSON description, no pickle."""
