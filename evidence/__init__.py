"""The evidence for the paper's claims: pre-stated claims, the studies that judge them, their figures, and one page."""
