"""Budgets of readers: how many bytes, members, levels and pixels a data file may ask for.

A small file can ask for a lot: a kilobyte of gzip holds a megabyte of zeros, twenty bytes of a pickle make Python
allocate gigabytes, and 90 kB of PNG are an image of 13,000 x 13,000 pixels. Every reader therefore has a budget and
keeps to it while it reads, never afterwards. A file that exceeds it is refused with a DataError that names file and
limit.

The sizes follow from official data: every budget exceeds what the largest supported data set needs (ImageNet's
largest image, the 62 million edges of ogbn-products, the 40,000 members of VOC 2012, the hundred million words of
WikiText-103), and is small enough that what a refused file has used by then fits into the memory of a laptop. A large
file on the user's own disk is not an attack: what grows only in proportion to the bytes on the disk has no budget of
its own.
"""

from __future__ import annotations

MOST_FILE_BYTES = 1_000_000_000
"""Content of a file that is read as a whole, an idx file or a pickle: the largest, EMNIST's, has 550 MB."""

MOST_EXPANSION, EXPANSION_ALLOWANCE = 20, 100_000_000
"""Unpacked bytes per compressed byte, and extra bytes for small files that compress very well. Official data expand by
less than 10."""

MOST_LINE = 10_000_000
"""Characters of a line of text; official lines are paragraphs of some thousand."""

MOST_TABLE_LINE = 1_000_000
"""Characters of a line of numbers; a hundred features take about a thousand."""

MOST_PAIRS = 5_000_000
"""Sentence pairs of a file; SNLI has 550,000."""

MOST_WORDS = 2_000_000
"""Different words of a text; WikiText-103 has 268,000."""

MOST_PICKLE_STEPS, MOST_PICKLE_DEPTH = 5_000_000, 200
"""Instructions of a pickle, of which each makes at most one value, and how deep values may be nested. CIFAR-100 and
PubMed take some hundred thousand, three levels deep."""

MOST_FEATURE_VALUES = 200_000_000
"""Nodes times features of a graph whose file is sparse: PubMed has 10 million, and Reddit 140 million."""

MOST_LISTED_EDGES = 10_000_000
"""Edges of a graph that are listed in a pickle: PubMed has 90,000."""

MOST_PIXELS = 80_000_000
"""Pixels of an image that is scaled down: ImageNet's largest has 61 million."""

MOST_SCENE_PIXELS = 20_000_000
"""Pixels of an image with boxes, which is trained at its own size: Pascal VOC's have 250,000."""

MOST_IMAGE_BYTES = 200_000_000
"""Bytes of an image file: as many as the largest image takes without compression."""

MOST_ANNOTATION_BYTES = 2_000_000
"""Bytes of the annotation of an image: one object takes about 250."""

MOST_HEADER_BYTES = 65_536
"""Bytes in front of the content of a member of a tar archive: official ones have 512."""

MOST_FOLDERS, MOST_NAME = 20, 255
"""Levels of folders in an archive, and bytes of a name at one level. Official archives have five levels."""


def most_unpacked(size: int) -> int:
    """Return the most bytes that a compressed file or archive of a size may unpack to."""
    return MOST_EXPANSION * size + EXPANSION_ALLOWANCE


def most_members(size: int) -> int:
    """Return the most members of an archive of a size. VOC 2012 has one per 50 kB.

    >>> most_members(4_000_000), most_members(2_000_000_000)
    (1400, 201000)
    """
    return 1_000 + size // 10_000


def most_downloaded(size: int) -> int:
    """Return the most bytes of a download whose stated size is this one; a publisher may correct a file.

    >>> most_downloaded(100_000_000)
    111000000
    """
    return size + size // 10 + 1_000_000


def human(size: int) -> str:
    """Return a number of bytes as messages show it.

    >>> human(20_000), human(1_500_000), human(1_480_000_000)
    ('20 kB', '1.5 MB', '1,480 MB')
    """
    if size < 1_000_000:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.1f} MB"
