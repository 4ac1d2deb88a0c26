"""Words for one thing: what a person calls it the second time is often not what they called it the first.

Each line, with those set in below it, is a family of words, by how they begin, in the languages people write in; words of
scripts without spaces are looked for anywhere. Families only propose: what two statements share by them alone is laid side by
side and never replaced.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache

_FAMILIES = """
approv sign-off signoff signed consent authoris authoriz four-eyes review reviewer eyes clearance greenlight vet freigab
  abnahm genehmig zustimm aprob visto revis valid approb relecture одобр соглас утвержд провер ревью 审批 审核 批准 承認
  レビュー 査読 موافق مراجع
deploy release releas rollout roll-out ship shipping publish publication push launch go-live live auslief liefer
  veröffentlich bereitstell desplieg despleg publica lanz entreg déploi livr publier выкат релиз деплой выпуск выпус 发布
  部署 上线 リリース 公開 デプロイ 配信 نشر إطلاق
friday weekend week-end end-of-week saturday sunday freitag wochenende samstag sonntag viernes fin semana sábado domingo
  vendredi samedi dimanche пятниц выходн суббот 周五 星期五 周末 金曜 週末 土曜 日曜 الجمعة عطلة
freeze frozen moratorium pause paus halt standstill blackout hold sperre sperr pausier einfrier congel parad gel suspend
  заморо пауз 冻结 暂停 停 凍結 休止 تجميد
ban prohib forbid forbidden restrict restriction taboo off-limits hands-off verbot verboten untersag prohíb veto interdi
  defens запре нельзя 禁止 禁令 不得 厳禁 ممنوع حظر
round rounding cent cents penny pennies coin coins rappen decimal decimals fraction precision runden rundung redonde céntimo
  centavo arrondi centime округл копе 四舍五入 小数 取整 端数 切り捨て تقريب
language tongue norwegian danish english german french spanish translat localis localiz wording bilingual sprache deutsch
  englisch platt übersetz idioma inglés español traduc langue anglais français tradui язык перевод русск английск 语言 翻译
  中文 英文 言語 日本語 英語 翻訳 لغة ترجم
changelog release-notes notes history news änderungsprotokoll novedades журнал изменений 更新日志 変更履歴
picture photo image screenshot screen-shot snapshot graphic icon logo png jpg jpeg svg bild bilder grafik foto imagen
  captura dibujo capture картин снимок изображ скриншот 图片 截图 图像 画像 写真 スクリーンショット صورة صور
bug bugs defect ticket issue tickets issues case cases incident fehler störung vorgang incidencia caso fallo тикет задач баг
  工单 问题 缺陷 チケット 不具合 تذكرة
copy copies backup back-up duplicate mirror dump dumps archive safety-copy replica snapshot kopie sicherung sicher copia
  respaldo copie sauvegard копи резерв бэкап 备份 副本 複製 バックアップ 控え نسخ نسخة احتياط
ask asking permission check-with consult ping inform consent frag nachfrag rückfrag erlaubnis pregunt permiso demand спрос
  спраш разреш 询问 请示 问 確認 許可 相談 اسأل إذن
schedule scheduler cron timer nightly calendar timetable zeitplan planer horario agenda planif расписан планировщ 计划 定时
  日程 予定 スケジュール جدول
colour color colours colors hue tint theme palette shade blue green red amber teal yellow purple farbe farb farben tema
  couleur thème цвет тема 颜色 主题 配色 色 テーマ لون
limit limits cap caps capped ceiling maximum max upper threshold quota at-most no-more-than grenze obergrenze höchst límite
  tope máximo plafond limite предел лимит максим 上限 限制 最多 制限 最大 حد
size sizes megabyte mb gb kb gigabyte bytes weight large larger größe grösse tamaño taille размер 大小 尺寸 サイズ 容量 حجم
mail mails email e-mail mailing message letter newsletter inbox notify notification alert bcc nachricht benachrichtig correo
  mensaje avis courriel письм почт уведом сообщ 邮件 通知 消息 メール 連絡 بريد رسالة إشعار
report reports summary summar digest overview recap briefing bericht übersicht zusammenfass informe resumen rapport résumé
  synthèse отчёт отчет сводк 报告 摘要 汇总 周报 報告 要約 週報 تقرير ملخص
name names naming title titled called rename prefix suffix initials label labels heißt namen benenn bezeichn präfix nombre
  llam título prefij nom intitul préfix назван имен назы префикс 名称 命名 标题 前缀 名前 呼び اسم عنوان
branch branches fork trunk zweig rama branche ветк 分支 ブランチ فرع
database databases postgres postgresql sqlite mysql db dbms storage datenbank base-de-datos bd хранилищ база 数据库
  データベース قاعدة
test tests suite specs checks testing unit-test prüf pruebas essai тест 测试 テスト اختبار
library libraries dependency dependencies package packages third-party vendor module framework bibliothek abhängigkeit paket
  biblioteca dependenc librer bibliothèque dépendance библиот зависим пакет 库 依赖 包 ライブラリ 依存 مكتبة
time-zone timezone zone zones utc gmt timestamp timestamps clock clocks local-time zeitzone uhrzeit zeitstempel huso reloj
  fuseau horodat часов пояс 时区 时间戳 タイムゾーン 時刻 توقيت
delet remov removal erase purge wipe drop-table cleanup lösch entfern aufräum borr elimin supprim effac удал стир 删除 清除
  清理 削除 消去 حذف
document documentation docs comment comments docstring manual handbook guide readme dokument kommentar anleitung handbuch
  documentación comentario manuel doc коммент документ описан 文档 注释 说明 手册 ドキュメント コメント 説明 マニュアル
  توثيق تعليق
log logs logging logged record recording trace traces audit-trail protokoll protokollier mitschrift mitschreib registr
  bitácora journal логи лог журнал запис 日志 记录 ログ 記録 سجل
request requests header headers client clients call calls payload anfrage kopfzeil petición solicitud requête запрос заголов
  请求 报头 リクエスト ヘッダ طلب
staging stage rehearsal pre-production preprod sandbox playground testbed dry-run probe-lauf testumgebung ensayo
  préproduction répétition стенд песочниц 预发 演练 沙箱 ステージング 検証環境 تجريب
experiment experiments try trial trying experimentier versuch prueba essay эксперимент 实验 試験 実験 تجربة
production prod live customers-see produktiv produktion producción боев прод 生产 本番 إنتاج
legacy old older ancient inherited alt altlast heredad antigu hérit ancien стар унаслед 旧 遗留 古い レガシー قديم
encrypt encryption cipher crypto pgp tls secure security secret verschlüssel chiffr cifr crypt шифр безопас 加密 安全 暗号
  セキュリティ تشفير
attachment attachments attach enclos file files upload uploads download datei dateien anhang archivo adjunt fichier pièce
  файл вложен 附件 文件 上传 添付 ファイル ملف مرفق
confirm confirmation acknowledg ack acknowledgement bestätig acus подтвер 确认 確認 تأكيد
close closing closed shut resolve schließ schliess cerr clôtur ferm закры 关闭 閉じ クローズ إغلاق
lunch noon midday mittag mediodía almuerzo midi déjeuner обед полдень 中午 午休 昼 ランチ غداء ظهر
night nightly evening midnight nacht abend nächtlich noche tarde nuit soir ноч вечер 夜 晚 夜間 مساء ليل
morning dawn breakfast früh morgen mañana matin утр 早上 早晨 朝 صباح
licence license licensed free-software open-source gpl proprietary paid lizenz quelloffen licencia libre logiciel лиценз
  许可 开源 ライセンス رخصة
buy purchase purchas spend cost costs price prices budget money expense euros euro dollar dollars amount fee kauf kosten
  preis geld ausgab compr gast precio presupuesto dinero acheter coût prix покуп цен бюджет стоим 预算 价格 费用 买 予算
  価格 費用 ميزانية سعر
invoice invoices bill bills receipt receipts voucher rechnung beleg quittung factura recibo facture reçu счёт счет накладн
  чек 发票 收据 账单 請求書 領収書 فاتورة إيصال
paper print printing printed printer hard-copy papier druck drucken papel imprim imprimir бумаг печат 纸 打印 印刷 紙 طباعة
  ورق
meeting meet appointment sync standup stand-up call session besprechung termin treffen reunión encuentro cita réunion
  rendez-vous встреч созвон совещан 会议 会面 約束 会議 打ち合わせ ミーティング اجتماع موعد
deadline due date duedate cut-off cutoff delivery handover frist fällig abgab termin plazo entrega fecha échéance délai
  livraison срок дедлайн сдач 截止 期限 交付 日期 締め切り 締切 納期 موعد تسليم
contact escalat escalation call person responsible owner in-charge reach help burn emergency ansprechpartner zuständig
  verantwort wende kontakt contacto responsable encargad interlocuteur ответствен контакт обращ 联系 负责 担当 連絡先 مسؤول
  اتصل
python interpreter runtime java jdk jre node compiler toolchain laufzeit übersetzer intérprete versión интерпретатор верси
  解释器 运行时 版本 バージョン ランタイム إصدار
version versions release edition revision ausgabe versión версия 版本 版 إصدار
timeout time-out wait waits waiting patience delay wartezeit warten frist espera attente délai ожидан таймаут ждать 超时
  等待 タイムアウト 待ち مهلة انتظار
retry retries attempt attempts tries again times wiederhol versuch reintent intento essai tentativ повтор попыт 重试 次数
  再試行 回 محاولة
indent indentation tab tabs space spaces whitespace formatting formatter einrück leerzeichen sangr tabulador espacio espace
  отступ пробел табуля 缩进 空格 インデント 空白 مسافة
key keys token tokens credential credentials password passphrase secret variable env schlüssel kennwort passwort
  zugangsdaten clave contraseña clé jeton ключ токен парол 密钥 令牌 密码 鍵 トークン パスワード مفتاح كلمة
batch batches chunk chunks bulk block page-size stapel lote paquet lot пакет порци 批 批次 バッチ دفعة
cache caches cached memory in-memory ttl lifetime zwischenspeicher puffer caché memoria mémoire кэш кеш память 缓存 内存
  キャッシュ メモリ ذاكرة
destination deliver ship shipment address sent-to harbour port-of crate crates ziel versand lieferadresse destino envío
  adresse назначен отправ адрес 目的地 地址 送货 宛先 住所 وجهة عنوان
tax vat rate percent duty steuer mehrwertsteuer satz impuesto iva taxe tva налог ндс ставк 税 税率 消費税 ضريبة
role roles admin administrator superuser root privilege rights rolle rechte rol permisos rôle droits роль права админ 角色
  权限 管理员 権限 管理者 دور صلاحية
port ports socket listen listens listening endpoint lauscht puerto escucha écoute порт слуша 端口 监听 ポート 待ち受け منفذ
server servers host hosts hosted machine machines box node hardware rechner maschine servidor máquina serveur сервер машин
  узел 服务器 主机 机器 サーバ マシン خادم
verbosity log-level level debug info warn verbose ausführlich nivel niveau уровень 级别 レベル مستوى
merge merges commit commits squash pull-request merge-request patch patches fusion коммит мерж 合并 提交 マージ コミット دمج
code codebase source importer parser refactor rewrite quelltext código código-fuente код исходник 代码 源码 コード شيفرة
customer customers client user users people crew team staff kunde kunden nutzer leute cliente usuario équipe клиент
  пользоват команд 客户 用户 团队 顧客 ユーザー عميل مستخدم
screen page pages interface ui front-end frontend view layout oberfläche seite pantalla página interfaz écran экран страниц
  интерфейс 界面 页面 画面 واجهة صفحة
font fonts typeface typography schrift schriftart fuente tipografía police шрифт 字体 フォント خط
unit units metric imperial celsius fahrenheit metre mile einheit unidad unité единиц 单位 単位 وحدة
holiday holidays vacation leave absence urlaub feiertag vacaciones congé отпуск праздник 假期 休暇 إجازة
phone telephone hotline number call telefon anruf teléfono llamada téléphone телефон звон 电话 電話 هاتف
supplier suppliers provider contractor partner lieferant anbieter proveedor fournisseur поставщик партнёр 供应商 サプライヤ
  業者 مورد
stock inventory warehouse depot shelf lager bestand vorrat almacén inventario entrepôt склад запас остат 库存 仓库 在庫 倉庫
  مخزون مستودع
order orders purchase-order basket cart bestellung auftrag pedido commande заказ корзин 订单 注文 طلب
table chart graph plot figure figures dashboard tabelle diagramm tabla gráfico tableau graphique таблиц график 表格 图表 表
  グラフ جدول رسم
format formats json csv xml yaml encoding utf kodierung formato codificación encodage формат кодиров 格式 编码 形式
  エンコード صيغة
style styles lint linter naming-style convention guideline richtlinie konvention stil convención estilo norme стиль
  соглашени 规范 风格 スタイル 規約
error errors exception failure crash fehlermeldung absturz fallo erreur panne ошибк сбой 错误 异常 エラー 障害 خطأ
speed fast performance latency throughput slow geschwindigkeit leistung velocidad rendimiento vitesse скорост производит
  性能 速度 スピード أداء سرعة
money currency payment pay salary refund zahlung währung pago moneda paiement devise оплат валют 付款 货币 支払 通貨 دفع
  عملة
music sound audio volume ton lautstärke sonido volumen son звук громк 声音 音量 音 صوت
room desk office building floor raum büro zimmer sala oficina bureau salle комнат офис этаж 房间 办公室 部屋 事務所 غرفة
  مكتب
train bus car taxi flight travel hotel trip zug reise flug viaje vuelo voyage vol поезд рейс поездк 火车 航班 出差 電車 出張
  سفر رحلة
food menu lunch dinner coffee tea vegetarian meal essen kaffee comida café repas еда кофе обед 吃 餐 食事 طعام
quote quotes quoted citation cite reference refer source zitat quelle verweis cita referencia référence ссылк цитат 引用
  参考 مرجع
answer answers reply replies short brief concise terse long verbose antwort kurz respuesta breve réponse court ответ кратк
  回答 简短 短く إجابة
"""

_word = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_without_spaces = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
SHORTEST = 2
# From this length on a beginning tells the family, whatever follows.
TELLING_BEGINNING = 5
LONGEST_ENDING = 2


def _families(*, unspaced: bool) -> dict[str, frozenset[int]]:
    """Return the families of each word, of scripts without spaces or of the others."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(_FAMILIES.replace("\n  ", " ").strip().splitlines()):
        for word in line.split():
            if bool(_without_spaces.search(word)) is unspaced:
                found[word].add(number)
    return {word: frozenset(families) for word, families in found.items()}


_SPACED, _UNSPACED = _families(unspaced=False), _families(unspaced=True)
_LONGEST = max(map(len, _SPACED))


@lru_cache(maxsize=16_384)
def concepts(text: str) -> frozenset[str]:
    """Return the families that a statement's words belong to."""
    found: set[int] = set()
    for word in _word.findall(text.casefold()):
        found |= _of_word(word)
    if not text.isascii():
        for sign, families in _UNSPACED.items():
            if sign in text:
                found |= families
    return frozenset(f"~{number}" for number in found)


@lru_cache(maxsize=32_768)
def _of_word(word: str) -> frozenset[int]:
    """Return the families of the longest beginning of a word that is in one; a short one must be all but an ending of it."""
    for length in range(min(len(word), _LONGEST), SHORTEST - 1, -1):
        families = _SPACED.get(word[:length])
        if families is not None and (length >= TELLING_BEGINNING or len(word) - length <= LONGEST_ENDING):
            return families
    parts = word.split("-") if "-" in word else []
    return frozenset(family for part in parts for family in _of_word(part))
