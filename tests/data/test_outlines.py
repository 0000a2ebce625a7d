"""Rings keep what they enclose: circles, holes, parts within an image."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as few
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hires.data.outlines import circle_ring, clipped_ring, rectangle_ring, ring_area, ring_box, with_holes
from hires.data.rasterize import polygon_pixels
from hires.interfaces import Window

CANVAS = Window(0, 0, 24, 32)
RINGS = arrays(np.float64, st.tuples(st.integers(3, 9), st.just(2)), elements=st.floats(-40, 60, width=32))


@pytest.mark.parametrize("radius", [0.4, 3, 50, 4000])
def test_circles_have_their_area(radius):
    ring = circle_ring(np.array([7.0, 9.0]), radius)
    assert ring_area(ring) == pytest.approx(np.pi * radius**2, rel=0.06 if radius > 1 else 0.3)
    assert np.abs(np.hypot(*(ring - (7, 9)).T) - radius).max() < 1e-9
    x1, _, x2, _ = ring_box([ring])
    assert x2 - x1 == pytest.approx(2 * radius, rel=0.04)


def test_a_circle_without_radius_encloses_nothing():
    assert ring_area(circle_ring(np.array([1.0, 1.0]), 0.0)) == 0


@few(max_examples=60, deadline=None)
@given(RINGS)
def test_clipping_keeps_the_pixels_of_the_image(ring):
    part = clipped_ring(ring, CANVAS.width, CANVAS.height)
    assert ((part >= 0) & (part <= (CANVAS.width, CANVAS.height))).all()
    whole = polygon_pixels(ring, CANVAS)
    cut = polygon_pixels(part, CANVAS) if len(part) else np.zeros_like(whole)
    assert (whole != cut).sum() <= 2  # centres on an edge, which the new points move by a rounding


def test_what_lies_inside_stays_the_same():
    ring = rectangle_ring(np.array([3.0, 9.0]), np.array([8.0, 4.0]))
    assert clipped_ring(ring, 32, 24) is ring
    assert len(clipped_ring(ring + 100, 32, 24)) == 0


@few(max_examples=60, deadline=None)
@given(RINGS, RINGS)
def test_holes_are_cut_out_pixel_by_pixel(border, hole):
    joined = polygon_pixels(with_holes([border, hole]), CANVAS)
    np.testing.assert_array_equal(joined, polygon_pixels(border, CANVAS) ^ polygon_pixels(hole, CANVAS))
