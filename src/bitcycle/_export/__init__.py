"""Export of trained models: float weights on their grids, ONNX files, and torchao's weight layouts, all of them checked.

Every exporter reads the evaluation bits of the model, which ``bc.set_bits(model, evaluate=...)`` sets, and compares what
it wrote with the model's evaluation.
"""

from bitcycle._export.agreement import Agreement, check_onnx
from bitcycle._export.float_weights import export
from bitcycle._export.onnx_file import export_onnx
from bitcycle._export.torchao_weights import TorchaoModel, export_torchao

__all__ = ["Agreement", "TorchaoModel", "check_onnx", "export", "export_onnx", "export_torchao"]
