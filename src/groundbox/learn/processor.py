"""Abilities of the processor that a model is computed on."""

from __future__ import annotations

import torch


def has_bf16() -> bool:
    """Tell whether it computes with numbers of 16 bits itself; where it does not, they take forty times as long."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
