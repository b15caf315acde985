"""Invented secrets in real formats, put together when the tests run so that no scanner finds one in the repository."""

from __future__ import annotations

import base64
import random
import string
import uuid

_CHANCE = random.Random(20260314)
_ALNUM = string.ascii_letters + string.digits


def some(count: int, of: str = _ALNUM) -> str:
    text = "".join(_CHANCE.choice(of) for _ in range(count - 3))
    extra = [_CHANCE.choice([c for c in of if c in kind] or of) for kind in (string.digits, string.ascii_letters, of)]
    mixed = [*text, *extra]
    _CHANCE.shuffle(mixed)
    return "".join(mixed)


HEX = "0123456789abcdef"
URL = _ALNUM + "-_"


def _b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _card(start: str, length: int) -> str:
    digits = start + "".join(_CHANCE.choice(string.digits) for _ in range(length - len(start) - 1))
    total = sum(int(d) if at % 2 else sum(divmod(2 * int(d), 10)) for at, d in enumerate(reversed(digits)))
    return digits + str(-total % 10)


def _jwt() -> str:
    return ".".join((_b64('{"alg":"HS256","typ":"JWT"}'), _b64('{"sub":"1234567890","name":"Nobody"}'), some(43, URL)))


def _pem(kind: str = "RSA ") -> str:
    body = "\n".join(some(64, _ALNUM + "+/") for _ in range(6))
    return f"-----BEGIN {kind}PRIVATE" + f" KEY-----\n{body}\n-----END {kind}PRIVATE" + " KEY-----"


def _grouped(card: str) -> str:
    return " ".join(card[at : at + 4] for at in range(0, len(card), 4))


# Each a text and the part of it that must not stay.
def secrets() -> list[tuple[str, str, str]]:
    bare = {
        "openai": "sk" + "-" + some(48),
        "openai project": "sk" + "-proj-" + some(90, URL),
        "openai service": "sk" + "-svcacct-" + some(60, URL),
        "anthropic": "sk" + "-ant-api03-" + some(93, URL),
        "openrouter": "sk" + "-or-v1-" + some(64, HEX),
        "aws": "AKIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
        "aws temporary": "ASIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
        "github classic": "ghp" + "_" + some(36),
        "github oauth": "gho" + "_" + some(36),
        "github app": "ghs" + "_" + some(36),
        "github refresh": "ghr" + "_" + some(76),
        "github fine-grained": "github" + "_pat_" + some(22) + "_" + some(59),
        "gitlab": "glpat" + "-" + some(20, URL),
        "gitlab runner": "glrt" + "-" + some(20, URL),
        "slack bot": "xoxb" + "-" + some(11, "0123456789") + "-" + some(12, "0123456789") + "-" + some(24),
        "slack user": "xoxp" + "-" + some(11, "0123456789") + "-" + some(12, "0123456789") + "-" + some(32, HEX),
        "slack app": "xapp" + "-1-A" + some(10) + "-" + some(13, "0123456789") + "-" + some(64, HEX),
        "slack webhook": "https://hooks.slack" + ".com/services/T" + some(8) + "/B" + some(8) + "/" + some(24),
        "stripe live": "sk" + "_live_" + some(24),
        "stripe test": "sk" + "_test_" + some(99),
        "stripe restricted": "rk" + "_live_" + some(24),
        "stripe webhook": "whsec" + "_" + some(32),
        "google": "AIza" + some(35, URL),
        "google client": "GOCSPX" + "-" + some(28, URL),
        "google oauth": "ya29" + "." + some(80, URL),
        "npm": "npm" + "_" + some(36),
        "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + some(120, URL),
        "limpet": "lim" + "_" + some(43, URL),
        "hugging face": "hf" + "_" + some(34),
        "sendgrid": "SG" + "." + some(22, URL) + "." + some(43, URL),
        "twilio": "SK" + some(32, HEX),
        "mailgun": "key" + "-" + some(32, HEX),
        "telegram": some(10, "123456789") + ":AA" + some(33, URL),
        "discord": "M" + some(25) + "." + some(6) + "." + some(38, URL),
        "discord webhook": "https://discord" + ".com/api/webhooks/" + some(18, "123456789") + "/" + some(68, URL),
        "digitalocean": "dop" + "_v1_" + some(64, HEX),
        "databricks": "dapi" + some(32, HEX),
        "shopify": "shpat" + "_" + some(32, HEX),
        "square": "sq0atp" + "-" + some(22, URL),
        "linear": "lin" + "_api_" + some(40),
        "notion": "ntn" + "_" + some(46),
        "docker": "dckr" + "_pat_" + some(27, URL),
        "vault": "hvs" + "." + some(90, URL),
        "groq": "gsk" + "_" + some(52),
        "replicate": "r8" + "_" + some(37),
        "xai": "xai" + "-" + some(80),
        "perplexity": "pplx" + "-" + some(48),
        "new relic": "NRAK" + "-" + some(27, string.ascii_uppercase + string.digits),
        "grafana": "glsa" + "_" + some(32) + "_" + some(8, HEX),
        "age": "AGE-SECRET" + "-KEY-1" + some(58, string.ascii_uppercase + string.digits),
        "jwt": _jwt(),
        "rsa key": _pem(),
        "openssh key": _pem("OPENSSH "),
        "pkcs8 key": _pem(""),
        "visa": _card("4539", 16),
        "visa grouped": _grouped(_card("4929", 16)),
        "mastercard": _card("5412", 16),
        "amex": _card("3714", 15),
        "discover": _card("6011", 16),
    }
    found = [(name, f"Here it is: {secret} , keep it.", secret) for name, secret in bare.items()]
    word, tail = "hunter" + "22", some(40, _ALNUM + "/+")
    for name, before, secret, after in (
        ("aws secret", "AWS_SECRET_ACCESS_KEY=", tail, ""),
        ("password in yaml", "db:\n  password: ", word, "\n  host: localhost"),
        ("password in words", "fyi my password is ", "Tr0ub4" + "dor&3", ", please log in"),
        ("password in env", "DB_PASSWORD=", "s3cr" + "et-pw!", "\nDB_HOST=x"),
        ("pwd in a connection string", "Server=db;User Id=sa;Pwd=", "Pa55" + "w.rd", ";Database=x"),
        ("password in json", '{"user": "sa", "password": "', "correct-" + "horse", '"}'),
        ("postgres url", "postgresql://app:", "pw" + "4db", "@db.internal:5432/app"),
        ("redis url", "redis://:", "longpass" + "word1", "@cache:6379/0"),
        ("url with credentials", "https://bob:", "bobs" + "pw", "@example.org/private"),
        ("mongodb url", "mongodb+srv://root:", some(16), "@cluster0.example.net"),
        ("bearer header", "curl -H 'Authorization: Bearer ", some(40), "' https://x"),
        ("basic header", "Authorization: Basic ", base64.b64encode(b"bob:bobs" + b"secret99").decode(), ""),
        ("api key", "api_key = '", some(32), "'"),
        ("hex api key", "API_KEY=", some(32, HEX), ""),
        ("client secret", "client_secret: ", some(40, URL), ""),
        ("token in words", "the access token is ", some(36), " until Monday"),
        (
            "azure account",
            "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=",
            some(86, _ALNUM + "+/") + "==",
            ";",
        ),
        ("sas", "https://x.blob.core.windows.net/c?sv=2022&sig=", some(43) + "%3D", ""),
        ("password flag", "mysql -u root --password=", "r00t" + "pass", " db"),
        ("pin", "my pin is ", "49" + "17", "."),
        ("german", "Mein Passwort ist ", "Sommer" + "2026!", ""),
        ("passphrase", "passphrase: ", "purple-" + "monkey-dish", ""),
        *_second_list(),
    ):
        found.append((name, f"{before}{secret}{after}", secret))
    return found


def _second_list() -> list[tuple[str, str, str, str]]:
    """What a hostile reviewer found to pass: commands, variables, headers, sentences, other languages."""
    word, seed = "Hunter2" + "X9!", "legal winner thank year wave sausage worth useful legal winner thank yellow"
    longer = f"{seed} letter advice cage absurd amount doctor acoustic avoid letter advice cage above"
    return [
        ("variable PASS", "export DB_PASS=", "aB3$" + some(8), ""),
        ("variable PASS with a word", "DB_PASS=", "letme" + "in", "\nDB_HOST=x"),
        ("variable PW", "SMTP_PW=", "aB3x" + some(8), ""),
        ("variable PASSWORD", "PGPASSWORD=", "pgs3" + "cret", " psql"),
        ("pw", "pw: ", word, ""),
        ("pw in a sentence", "the pw: ", "hunter" + "22", " thanks"),
        ("pass in yaml", "db:\n  user: x\n  pass: ", "aB3x" + some(8), ""),
        ("curl", "curl -u admin:", "S3cr" + "3t!", " https://x"),
        ("curl with a plain word", "curl --user bob:", "open" + "sesame", " https://x"),
        ("mysql", "mysql -u root -p", "S3cr3t" + some(6), " db"),
        ("sshpass", "sshpass -p '", "hunter2" + "X9", "' ssh root@x"),
        ("docker login", "docker login -u bob -p ", "Wh4le" + "song", ""),
        ("flag", "deploy --token ", some(20), ""),
        ("netrc", "machine github.com login me password ", "Tr0ub" + "4dor", ""),
        ("pgpass", "db.internal:5432:app:bob:", "pg" + "pa55", ""),
        ("cookie", "Cookie: ", "sessionid=" + some(32), ""),
        ("set-cookie", "Set-Cookie: ", "sid=" + some(12) + "; Path=/; HttpOnly", ""),
        ("cookie in curl", "curl -H 'Cookie: ", "a=" + some(12), "' https://x"),
        ("session id", "JSESSIONID=", some(32, "ABCDEF0123456789"), ""),
        ("authorization", "Authorization: ApiKey ", some(32), ""),
        ("url key", "https://maps.example/json?key=", some(32), "&q=a"),
        ("heroku", "HEROKU_API_KEY=", str(uuid.UUID(int=_CHANCE.getrandbits(128))), ""),
        ("azure secret", "The Azure app secret value is ", "Zx7" + "8Q~" + some(31), ""),
        ("mapbox", "", "pk." + "eyJ1" + some(40) + "." + some(22), ""),
        ("figma", "", "figd" + "_" + some(40), ""),
        ("paypal", "", "access_token" + "$production$" + some(16) + "$" + some(32, HEX), ""),
        ("airtable", "", "pat" + some(14) + "." + some(64, HEX), ""),
        ("supabase", "", "sbp" + "_" + some(40, HEX), ""),
        ("fly", "", "fm2" + "_" + some(80), ""),
        ("doppler", "", "dp.pt" + "." + some(43), ""),
        ("terraform", "", some(14) + ".atlasv1" + "." + some(64), ""),
        ("atlassian", "", "ATATT3" + "xFfGF0" + some(170), ""),
        ("artifactory", "", "AKC" + "p" + some(69), ""),
        ("sentry", "", "sntrys" + "_" + some(100), ""),
        ("rubygems", "", "rubygems" + "_" + some(48, HEX), ""),
        ("bcrypt", "bob:", "$2y$10$" + some(53, _ALNUM + "./"), ""),
        ("putty", "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n", some(60), ""),
        ("wif", "", "5J" + some(49, "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"), ""),
        ("ethereum", "my wallet key is ", "0x" + some(64, HEX), ""),
        ("seed phrase", "my seed phrase is ", seed, ""),
        ("seed phrase of 24", "Recovery phrase: ", longer, "."),
        ("bare seed phrase", "", seed, ""),
        ("bare seed phrase of 24", "hello\n", longer, "\nbye"),
        ("passphrase of words", "The passphrase is ", "correct horse battery staple", ""),
        ("as the password", "you can log in with ", "Hunter2!" + "9x", " as the password"),
        ("password for", "password for the router: ", "sunflower" + "12", ""),
        ("login", "My Netflix login is bob@x.com / ", "Qwerty!" + "2345", ""),
        ("wifi key", "WPA key: ", "mySuper" + "Key123!", ""),
        ("alarm code", "the alarm code is ", "7744" + "11", ""),
        ("card code", "cvv ", "73" + "7", ""),
        ("social security", "my SSN is ", "078-05-" + "1120", ""),
        ("backup codes", "backup codes: ", "8f3a-91cc" + " 77bd-0123", ""),
        ("recovery key", "My FileVault recovery key is ", "J4TK-9QWM" + "-77BD-PLX2", "."),
        ("recovery key", "BitLocker asks, it's ", "-".join(str(111_317 * at) for at in range(1, 9)), " I think"),
        ("one-time seed", "the TOTP seed: ", "JBSWY3DP" + "EHPK3PXP", ", keep it"),
        ("french", "mon mot de passe est ", "Chaton" + "42!", ""),
        ("french, with a colon", "mot de passe : ", "soleil" + "42", ""),
        ("french, of something", "le mot de passe du wifi est ", "soleil" + "42", ""),
        ("spanish", "mi contraseña es ", "Gatito" + "42!", ""),
        ("spanish, with a colon", "Contraseña: ", "gatito", ""),
        ("german, with a colon", "Passwort: ", "geheim", ""),
        ("german, spelled", "Das Passwort für das WLAN lautet: ", "Sommer" + "2024", ""),
        ("portuguese", "minha senha é ", "Gatinho" + "42!", ""),
        ("italian", "la mia password è ", "Micio" + "42!", ""),
        ("dutch", "mijn wachtwoord is ", "Poesje" + "42!", ""),
        ("polish", "hasło: ", "Kotek" + "42", ""),
        ("russian", "пароль: ", "Kotik" + "42", ""),
        ("chinese", "我的密码是", "Maomi" + "42!x", ""),
        ("japanese", "パスワードは", "Neko" + "42!x", ""),
    ]


def look_alikes() -> list[str]:
    some_uuid = str(uuid.UUID(int=_CHANCE.getrandbits(128)))
    return [
        some_uuid,
        f"session {some_uuid} ended",
        f"session_id={some_uuid}",
        f"request id: {some_uuid}",
        f"commit {some(40, HEX)}",
        f"fixed in {some(7, HEX)}",
        f"sha256:{some(64, HEX)}",
        f"md5 {some(32, HEX)}",
        f"image digest sha256:{some(64, HEX)} pulled",
        f'integrity="sha384-{some(64, _ALNUM + "+/")}"',
        f'ETag: "{some(32, HEX)}"',
        f"<img src='data:image/png;base64,{some(60, _ALNUM + '+/')}'>",
        f"file name: photo_{some(8, '0123456789')}.jpg",
        f"blake2b {some(32, HEX)} matches",
        "git checkout 9fceb02 && git rebase origin/main",
        "password reset",
        "I forgot my password.",
        "The password is wrong.",
        "the password is required",
        "Please reset your password: it is too short.",
        "password: required",
        "password=None",
        'password = os.environ["DB_PASSWORD"]',
        "password = getpass.getpass()",
        "password: str",
        "def login(user, password): ...",
        "PASSWORD=${DB_PASSWORD}",
        "password: <your password>",
        "password=********",
        "passwords are stored hashed",
        "the token was invalid",
        "The token is expired, log in again.",
        "token: string",
        "token = get_token()",
        "tokens: 4096",
        "max_tokens=1024",
        "token_count: 128000",
        "a token of appreciation",
        "secret santa is on Friday",
        "secret: true",
        "the secret is patience",
        "api_key=None",
        "api_key = settings.api_key",
        "api key required",
        "API_KEY=your-api-key-goes-here",
        "import sk-learn, I mean scikit-learn",
        "sk-learn is fine",
        "sk_live music in Slovakia",
        "the ghp_ prefix marks a classic token",
        "lim_hub_download('model')",
        "npm_config_registry is set",
        "pypi-server runs on port 8080",
        "AKIA is a prefix",
        "call me on +49 170 1234567",
        "phone 555-0142-9876",
        "+1 (415) 555-2671",
        "ISBN 978-3-16-148410-0",
        "ISBN 9780306406157",
        "IBAN DE89 3704 0044 0532 0130 00 is public on the invoice",
        "order number 1234567890123456",
        "tracking 1Z999AA10123456784",
        "timestamp 1767225600000000",
        "pi is 3.14159265358979323846",
        "https://example.org/a:b@c",
        "http://localhost:8080/path?x=1",
        "mailto:bob@example.org",
        "ssh git@github.com:owner/repo.git",
        "user@host:~/projects$ ls",
        "https://docs.python.org/3/library/re.html#re.compile",
        "basic understanding-of-the-system-architecture is needed",
        "Bearer of bad news",
        "the bearer authentication-middleware-configuration was renamed",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----",
        "eyJ is how base64 of a brace begins",
        "key: value",
        "primary_key = user_account_identifier",
        "foreign key: orders_customer_id_fkey",
        "keyboard-interrupt-handler-registration",
        "my pin board is full",
        "docker run -p 8080:80 nginx",
        "The quick brown fox jumps over 13 lazy dogs.",
        "version 2.31.0-rc1+build.20260101",
        "room 4929, floor 12",
        "Passwort vergessen?",
        "J'ai oublié mon mot de passe.",
        "Mi contraseña es incorrecta.",
        "Minha senha é muito fraca.",
        "密码是错误的",
        "Das Passwort ist falsch!",
        "My password is wrong!",
        "1Password: a password manager",
        "Monthly pass: $100/month",
        "buying a monthly pass:\n\n**Paying per ride:**",
        "pass: 12 of 14 tests",
        "The mountain pass: closed until May",
        "first_pass=True",
        "PW: hello, are you there?",
        "Cookie: chocolate chip, two cups of sugar",
        "cookie policy: accept or decline",
        "my favourite cookies = oatmeal and raisin",
        "curl -u $USER:$PASSWORD https://x",
        "mysql -u root -p db",
        "docker run -p 8080:80 -v data:/data nginx",
        "password = db.Column(db.String(120), nullable=False)",
        "User(username=username, password_hash=hashed_password)",
        "token: given.ScheduleToken",
        "the login page: see docs/api for details",
        "the recovery phrase is written down somewhere safe inside our house under the stairs with her old letters",
        "seed the random number generator before running any tests with many different values each time",
        "we planted tomato basil mint carrot onion garlic pepper squash beans lettuce radish spinach and thyme",
        "milk bread butter cheese eggs apples onions carrots beans rice pasta salt",
        "security code review: 12 findings",
        "the code is 200 for a page that exists",
        "the area code is 415",
        "PIN code: 560001, Bengaluru",
        "social security reform 2024",
        "we backed up the code 20240101",
        "https://example.org/?code=summer-sale-2026&key=shoes",
        "bob:x:1000:1000:Bob:/home/bob:/bin/bash",
    ]
