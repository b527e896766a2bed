"""Japanese and Chinese: symbols and units only; misaki converts the words."""

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table

_SCRIPTS = "LATIN|CJK|HIRAGANA|KATAKANA|KATAKANA-HIRAGANA|IDEOGRAPHIC|FULLWIDTH|HALFWIDTH|BOPOMOFO"

JAPANESE = Lexicon(
    language="ja",
    emoji="ja",
    minus="マイナス",
    plus="プラス",
    to="から",
    clock="時",
    code="コード。",
    symbols=table(
        """
        & = アンド
        + = プラス
        = = イコール
        @ = アットマーク
        % = パーセント
        ℃ | °C = 度
        $ = ドル
        € = ユーロ
        . = ドット
        """
    ),
    units=pairs(
        """
        % = パーセント
        ℃ | °C = 度
        km = キロメートル
        m = メートル
        cm = センチメートル
        kg = キログラム
        g = グラム
        GB = ギガバイト
        """
    ),
    money=pairs(
        """
        ¥ | JPY = 円
        $ | US$ | USD = ドル
        € | EUR = ユーロ
        £ | GBP = ポンド
        """
    ),
    scripts=_SCRIPTS,
)

CHINESE = Lexicon(
    language="zh",
    emoji="zh",
    minus="负",
    plus="加",
    to="到",
    clock="点",
    code="代码。",
    symbols=table(
        """
        & = 和
        + = 加
        = = 等于
        @ = 艾特
        ℃ | °C = 摄氏度
        $ = 美元
        € = 欧元
        . = 点
        """
    ),
    units=pairs(
        """
        % = 百分之{}
        ℃ | °C = 摄氏度
        km = 公里
        m = 米
        cm = 厘米
        kg = 公斤
        g = 克
        GB = 吉字节
        """
    ),
    money=pairs(
        """
        ¥ | CNY | RMB = 元
        $ | US$ | USD = 美元
        € | EUR = 欧元
        £ | GBP = 英镑
        """
    ),
    scripts=_SCRIPTS,
)
