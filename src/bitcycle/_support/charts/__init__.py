"""Charts as SVG: one description gives the drawing on a page, the SVG file and the PNG file."""
