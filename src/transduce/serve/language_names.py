"""English names of languages, by their codes (ISO 639); for lists that people read."""

from __future__ import annotations

from typing import Final

__all__ = ["language_name"]

_NAMES: Final = dict(
    pair.split("=")
    for pair in """
    af=Afrikaans am=Amharic ar=Arabic as=Assamese az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali
    br=Breton bs=Bosnian ca=Catalan cs=Czech cy=Welsh da=Danish de=German el=Greek en=English eo=Esperanto
    es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish fo=Faroese fr=French fy=Frisian ga=Irish
    gl=Galician gu=Gujarati ha=Hausa he=Hebrew hi=Hindi hr=Croatian ht=Haitian hu=Hungarian hy=Armenian
    id=Indonesian ig=Igbo is=Icelandic it=Italian ja=Japanese jv=Javanese ka=Georgian kk=Kazakh km=Khmer
    kn=Kannada ko=Korean ku=Kurdish ky=Kyrgyz la=Latin lb=Luxembourgish lo=Lao lt=Lithuanian lv=Latvian
    mg=Malagasy mi=Maori mk=Macedonian ml=Malayalam mn=Mongolian mr=Marathi ms=Malay mt=Maltese my=Burmese
    nb=Norwegian ne=Nepali nl=Dutch nn=Nynorsk no=Norwegian oc=Occitan or=Odia pa=Punjabi pl=Polish
    ps=Pashto pt=Portuguese qu=Quechua ro=Romanian ru=Russian rw=Kinyarwanda sa=Sanskrit sd=Sindhi
    si=Sinhala sk=Slovak sl=Slovenian sm=Samoan sn=Shona so=Somali sq=Albanian sr=Serbian st=Sotho
    su=Sundanese sv=Swedish sw=Swahili ta=Tamil te=Telugu tg=Tajik th=Thai tk=Turkmen tl=Tagalog
    tr=Turkish tt=Tatar ug=Uyghur uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese wo=Wolof xh=Xhosa yi=Yiddish
    yo=Yoruba zh=Chinese zu=Zulu
    """.split()  # noqa: SIM905 -- a paragraph of words reads better than a list of strings
)
_VARIANTS: Final = {
    "zh-hans": "Chinese (simplified)",
    "zh-cn": "Chinese (simplified)",
    "zh-hant": "Chinese (traditional)",
    "zh-tw": "Chinese (traditional)",
    "pt-br": "Portuguese (Brazil)",
}


def language_name(code: str) -> str:
    """The name, or the code itself; what stands behind a hyphen goes into brackets."""
    if code.lower() in _VARIANTS:
        return _VARIANTS[code.lower()]
    base, _, rest = code.partition("-")
    name = _NAMES.get(base.lower())
    return code if name is None else f"{name} ({rest})" if rest else name
