"""Abbreviations that end in a full stop, in lower case and without it; English and a few others."""

from __future__ import annotations

__all__ = ["ABBREVIATIONS", "BEFORE_NAMES"]

_BEFORE_NAMES = """
mr mrs ms mx dr prof st ste sen rep gov gen col lt capt cmdr sgt maj adm rev hon pres supt hr fr
mme mlle messrs fig figs eq eqs ref refs sec nos vol vols pp eds chap art vs cf approx ca e.g i.e
viz nr bzw mt ft
"""
_OTHERS = """
inc corp co ltd bros jr sr etc al dept univ assn jan feb mar apr jun jul aug sep sept oct nov dec
ala ariz ark calif colo conn fla ga ill kan ky md mass mich minn mont neb nev okla ore pa tenn tex
va vt wash wis wyo a.m p.m u.s u.k u.n ph.d blvd rd hwy ave usw z.b d.h cie
"""
# These are followed by a name or a number, so that no sentence ends with them.
BEFORE_NAMES = frozenset(_BEFORE_NAMES.split())
ABBREVIATIONS = BEFORE_NAMES | frozenset(_OTHERS.split())
