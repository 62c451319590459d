"""Writing without blanks between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese; and Korean, which writes its
particles and measure words without a blank.

A letter of these scripts beside digits makes no name of them: `总额为54321元` states a number. What it says around the
number is looked for by characters, and not by words.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

LETTER: Final = (
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff"
    "\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_LETTER: Final = re.compile(LETTER)
_SCALES: Final = {
    "百万": 6, "千万": 7, "万亿": 12, "百億": 10, "千億": 11, "百亿": 10, "千亿": 11,
    "万": 4, "萬": 4, "亿": 8, "億": 8, "兆": 12, "千": 3,
    "만": 4, "억": 8, "조": 12, "천": 3,
    "พันล้าน": 9, "หมื่นล้าน": 10, "แสนล้าน": 11, "ล้าน": 6, "แสน": 5, "หมื่น": 4,
}  # fmt: skip
_SCALE: Final = re.compile(rf" ?({'|'.join(sorted(_SCALES, key=len, reverse=True))})")
PERCENT: Final = "％|パーセント|퍼센트|프로(?!젝|그|모)|เปอร์เซ็นต์|个百分点|個百分點|ポイント(?=増|減|上|下)|割(?!合|り)"
TENTHS: Final = "割"
PERCENT_BEFORE: Final = re.compile(r"(?:百分之|ร้อยละ) ?\Z")
CURRENCY: Final = "元|圆|圓|円|원|บาท|人民币|美元|ドル|달러"
ABOUT: Final = "大约|大約|约|約|将近|將近|およそ|おおよそ|ほぼ|대략|약|ประมาณ|ราว"
OVER: Final = "超过|超過|逾|超|至少|不少于|高于|多于|大于|超え|최소|มากกว่า|เกิน|อย่างน้อย"
UNDER: Final = "不到|不足|低于|少于|小于|至多|不超过|最多|近|최대|น้อยกว่า|ไม่เกิน|ต่ำกว่า"
BOUND_AFTER: Final = re.compile(
    rf"(?:{LETTER}{{0,3}}?)(?:(?P<over>以上|余|餘|多(?!少)|を超|超(?!え?ない)|이상|넘|กว่า|ขึ้นไป)"
    r"|(?P<under>以下|未満|未满|以内|以內|이하|미만|弱)|(?P<about>左右|上下|前後|程度|くらい|ぐらい|ほど|정도|안팎|ต้นๆ))"
)
ORDINAL: Final = re.compile(r"(?:第|제|ที่) ?\Z")
_LABEL: Final = re.compile(
    r" ?(?:月(?!間)|월|号|號|番(?!組)|번(?!째)|指数|指數|강(?=\W)|强|大(?=[^\d\s]{1,4}(?:企业|城市))|季度|分期|章|节|節"
    r"|页|頁|步(?!骤)|回目|番目|번째|期|年级|年級|点|點|時|시|分(?!之|の)|ชั่วโมง|โมง)"
)
CUES: Final = {
    "sum": "总|總|共|合计|合計|累计|累計|全部|合わせ|합계|총|모두|รวม|ทั้งหมด",
    "pair": "总|總|共|合计|合計|合わせ|합계|총|รวม",
    "mean": "平均|均|中位|每|毎|一人当たり|평균|당|เฉลี่ย|ต่อ",
    "difference": "差|多|少|增|減|减|高|低|涨|跌|上升|下降|剩|残り|増|차이|증가|감소|มากกว่า|น้อยกว่า|เพิ่ม|ลด|ต่าง",
    "change": "增|減|减|涨|跌|升|降|同比|环比|前年比|前月比|増|伸び|증가|감소|성장|하락|상승|เพิ่ม|ลด|เติบโต",
    "ratio": "倍|比|每|毎|率|平均|배|비율|당|เท่า|อัตรา|ต่อ|เฉลี่ย",
}
"""Characters that speak for a step by which a number follows from others (derivations.py)."""


def is_unspaced(character: str) -> bool:
    """Return whether a character is a letter of such a script."""
    return _LETTER.match(character) is not None


def spaced(text: str) -> str:
    """The text with a blank for each letter of such scripts, so that places in it stay what they are."""
    return text if text.isascii() else _LETTER.sub(" ", text)


def scale_after(text: str) -> tuple[Decimal, int] | None:
    """The power of ten that `text` begins with, such as 万, and its length."""
    found = _SCALE.match(text)
    return None if found is None else (Decimal(1).scaleb(_SCALES[found[1]]), found.end())


def label_after(text: str) -> bool:
    """Return whether `text` begins with what makes a label of the number before it, as in `3月` or `5号线`."""
    return _LABEL.match(text) is not None
