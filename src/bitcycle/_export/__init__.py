"""Export of trained models at their evaluation bits: float weights on their grids, ONNX files."""

from bitcycle._export.agreement import Agreement, check_onnx, check_weights
from bitcycle._export.onnx_file import export_onnx
from bitcycle._export.weights import export

__all__ = ["Agreement", "check_onnx", "check_weights", "export", "export_onnx"]
