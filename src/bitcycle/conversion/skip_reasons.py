"""Why a module that has no registered layer is left alone, and whether it multiplies all the same."""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import is_lazy

from bitcycle.nn.code_scan import visible_products
from bitcycle.nn.registry import LEFT


def why_left(module: nn.Module, almost: str) -> tuple[str, bool]:
    """The reason (empty for a mere container), and whether products are left in full precision by it.

    ``almost`` says how the module differs from a registered layer, if it nearly is one.
    """
    kind = type(module)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return "embeddings stay in full precision", False
    if almost:
        return f"{almost}: not converted", True
    if kind.__module__.startswith("torch.nn.utils"):
        return "makes a weight out of parameters: no activation is multiplied", False
    if kind.__module__.startswith("torch.nn.modules"):
        if "Norm" in kind.__name__:
            return "normalisation stays in full precision", False
        return ("" if _is_container(module) else "no product"), False
    for condition, reason in LEFT:
        if condition(kind):
            return reason, False
    seen = visible_products(kind)
    if seen:
        return f"its code multiplies ({', '.join(seen)}) and no layer is registered for it", True
    matrices = [name for name, parameter in module.named_parameters(recurse=False) if _is_matrix(parameter)]
    if matrices:
        return f"owns {', '.join(matrices)}, and no product shows in its code", False
    return ("" if _is_container(module) else "no product"), False


def _is_container(module: nn.Module) -> bool:
    empty = isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential))
    return empty or next(module.children(), None) is not None


def _is_matrix(parameter: nn.Parameter) -> bool:
    return not is_lazy(parameter) and sum(size > 1 for size in parameter.shape) > 1
