"""Training that is common to all models: runs, trainers, the epoch loop, and worker pools."""
