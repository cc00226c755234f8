import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("bnmodes", deadline=None, derandomize=True)
settings.load_profile("bnmodes")
