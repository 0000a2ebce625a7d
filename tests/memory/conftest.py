"""Policies and a network to try them on."""

import pytest
import torch
from blocks import POLICIES, Trunk, batch_norm


@pytest.fixture(params=POLICIES.values(), ids=POLICIES.keys())
def policy(request):
    return request.param


@pytest.fixture
def trunk():
    torch.manual_seed(0)
    return Trunk(batch_norm(0.1))
