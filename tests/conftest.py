import gc

# Compilation makes objects by the million and keeps them: by default a tenth of all the time would
# go into looking through them for garbage.
gc.set_threshold(100_000, 20, 100)
