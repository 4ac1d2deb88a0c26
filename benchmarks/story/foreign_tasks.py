"""What the user and colleagues ask for in German, Chinese and Spanish."""

from __future__ import annotations

from benchmarks.story.service_tasks import Ask, Episode

ABROAD = (
    Episode(
        "store",
        (
            Ask(
                "Kurze Frage von Anselm aus Cuxhaven: Die Inventur zeigt {n}s doppelt. Kannst du in der Datenbank nachsehen, ob es wirklich zwei Zeilen sind?",
                "query schema read",
                "Es sind wirklich zwei: gleiche Quelle, gleiche Menge, zwei Sekunden auseinander. Die Kasse hat die Anfrage wiederholt.",
            ),
            Ask(
                "Dann brauchen wir einen eindeutigen Schlüssel. Schreib die Migration und räum die vorhandenen Dubletten vorher auf.",
                "beside patch migrate",
                "Die Migration führt erst zusammen und legt dann den Schlüssel an. In der Kopie waren es 312 Paare.",
            ),
            Ask(
                "Und was passiert mit einer Kasse, die noch einmal dasselbe schickt?",
                "read patch pass",
                "Sie bekommt die vorhandene Zeile zurück, mit Status 200 statt 201.",
            ),
        ),
    ),
    Episode(
        "worker",
        (
            Ask(
                "Der Etikettendruck in {s} stockt seit heute früh. Schau bitte zuerst ins Journal, dann in den Code.",
                "journal worker read",
                "Der Drucker antwortet, aber der Auftrag davor wartet auf eine Sperre, die niemand mehr hält.",
            ),
            Ask(
                "Wie lange dauert so etwas höchstens, wenn wir nichts tun?",
                "read grep",
                "Bis die Verbindung abläuft, also eine halbe Stunde. Mit einer eigenen Frist wären es Sekunden.",
            ),
            Ask(
                "Bau die Frist ein, mit Test.",
                "patch fail patch pass",
                "Eingebaut. Der Test hält die Sperre fest und sieht den Auftrag nach der Frist weiterlaufen.",
            ),
        ),
    ),
    Episode(
        "docs",
        (
            Ask(
                "Bitte die Seite über {n}s so umschreiben, dass eine neue Kollegin sie am ersten Tag versteht.",
                "read beside patch",
                "Neu geschrieben: erst ein Beispiel, dann die Regeln, die Ausnahmen zum Schluss.",
            ),
            Ask(
                "Passt. Noch ein Satz dazu, wen man fragt, wenn es klemmt.",
                "patch diff",
                "Ergänzt, mit dem Hinweis auf die Ereignisliste davor.",
            ),
        ),
    ),
    Episode(
        "api",
        (
            Ask(
                "美玲从仓库发来消息:扫码枪读到的 {n} 和系统里的对不上。先查一下日志,看是哪一步出的错。",
                "access worker read",
                "日志显示扫码枪发送了两次请求,第二次带的是旧版本号,被系统静默接受了。",
            ),
            Ask(
                "那就不应该接受旧版本。请加上版本检查,并补一个测试。",
                "patch fail patch pass",
                "已经加上检查,旧版本会得到 412。测试覆盖了重复请求的情况。",
            ),
            Ask("顺便看看其他接口有没有同样的问题。", "grep beside", "还有两处,都在退货流程里,已经列在说明里,等你确认后再改。"),
        ),
    ),
    Episode(
        "sync",
        (
            Ask(
                "供应商的文件编码又变了,导入时中文品名全是乱码。能不能自动识别?",
                "trace read export",
                "可以,但自动识别会误判短文件。更稳妥的办法是按供应商记录编码,识别只作为提示。",
            ),
            Ask(
                "同意,按供应商配置。改好以后用上个月的文件试一遍。",
                "patch pass export",
                "已完成。上个月的文件全部读对,只有一行本身就缺字段。",
            ),
        ),
    ),
    Episode(
        "pricing",
        (
            Ask(
                "Itziar pregunta por qué en {s} el descuento de un {n} aparece dos veces en el recibo. ¿Lo puedes reproducir?",
                "rows read fail",
                "Sí: el descuento del cliente se aplica al leer la lista y otra vez al cerrar la cesta.",
            ),
            Ask(
                "Que se aplique una sola vez, al cerrar.",
                "patch pass",
                "Hecho. Los recibos antiguos no cambian, porque guardan sus propias cifras.",
            ),
            Ask(
                "¿Y los informes del mes pasado? ¿Están mal?",
                "export query",
                "Los informes leen el total cobrado, así que están bien; solo el papel mostraba el descuento dos veces.",
            ),
        ),
    ),
    Episode(
        "cli",
        (
            Ask(
                "Necesito exportar los {n}s de {s} para la gestoría, separados por punto y coma y con coma decimal. ¿Qué hay ya hecho?",
                "help read export",
                "Hay un exportador con punto decimal fijo. Falta poder elegir el formato y el juego de caracteres.",
            ),
            Ask(
                "Añade las dos opciones, por favor, y deja lo de hoy como valor por defecto.",
                "patch fail patch pass",
                "Añadidas. Sin opciones, el fichero es idéntico al de antes, byte a byte.",
            ),
            Ask(
                "Perfecto. Genera uno de prueba y enséñame las primeras líneas.",
                "export",
                "Está en var/export. Las primeras líneas tienen buen aspecto, también los nombres con acentos.",
            ),
        ),
    ),
)
