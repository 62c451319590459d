# ruff: noqa: E501  one program a line
"""Short programs as models write them: each imports something that people expect, and uses it.

Those of a library follow each other in one sandbox, as the cells of a conversation do; each asserts what it came to.
Nothing may be printed to stderr: a library that complains costs a model a turn.
"""

import pytest

import groundbox as gb

pytestmark = pytest.mark.slow

BEFORE = """
import io
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
df = pd.DataFrame({'k': list('aab'), 'v': [1, 2, 3]})
df.to_csv('t.csv', index=False)
df.to_parquet('t.parquet')
plt.imsave('i.png', np.zeros((4, 4)))
"""
PROGRAMS = {
    "numpy": {
        "numpy solves equations": "import numpy as np\nassert np.linalg.solve([[2, 0], [0, 4]], [2, 4]).tolist() == [1, 1]",
        "numpy draws random numbers": "import numpy as np\nassert np.random.default_rng(0).normal(size=3).shape == (3,)",
    },
    "pandas": {
        "pandas groups": "import pandas as pd\ndf = pd.DataFrame({'k': list('aab'), 'v': [1, 2, 3]})\nassert df.groupby('k').v.sum()['a'] == 3",
        "pandas writes and reads CSV": "df.to_csv('t.csv', index=False)\nassert pd.read_csv('t.csv').equals(df)",
        "pandas writes and reads Excel": "df.to_excel('t.xlsx', index=False)\nassert pd.read_excel('t.xlsx').equals(df)",
        "pandas writes Excel by xlsxwriter": "with pd.ExcelWriter('x.xlsx', engine='xlsxwriter') as w:\n    df.to_excel(w, sheet_name='S')\n    w.sheets['S'].set_column('A:B', 20)",
        "pandas writes and reads Parquet": "df.to_parquet('t.parquet')\nassert pd.read_parquet('t.parquet').equals(df)",
        "pandas reads HTML tables": "import io\nassert pd.read_html(io.StringIO(df.to_html(index=False)))[0].equals(df)",
        "pandas reads XML": "assert len(pd.read_xml(io.StringIO(df.to_xml()))) == 3",
        "pandas writes Markdown": "assert df.to_markdown(index=False).startswith('| k')",
        "pandas writes LaTeX": "assert 'tabular' in df.to_latex(index=False)",
        "pandas styles a table": "assert '<table' in df.style.highlight_max(subset=['v']).to_html()",
        "pandas resamples": "s = pd.Series(range(4), index=pd.date_range('2024-01-01', periods=4, freq='12h'))\nassert s.resample('D').sum().tolist() == [1, 5]",
        "pandas knows time zones": "assert str(pd.Timestamp('2024-07-01', tz='Europe/Berlin').utcoffset()) == '2:00:00'",
        "pandas plots": "ax = df.plot.bar(x='k', y='v')\nassert len(ax.patches) == 3\nimport matplotlib.pyplot as plt\nplt.close('all')",
        "pandas keeps JSON lines": "df.to_json('t.jsonl', orient='records', lines=True)\nassert len(pd.read_json('t.jsonl', lines=True)) == 3",
    },
    "polars": {
        "polars groups": "import polars as pl\npf = pl.DataFrame({'k': ['a', 'a', 'b'], 'v': [1, 2, 3]})\nassert pf.group_by('k').agg(pl.col('v').sum()).sort('k')['v'].to_list() == [3, 3]",
        "polars is lazy": "assert pl.scan_csv('t.csv').filter(pl.col('v') > 1).collect().height == 2",
        "polars becomes pandas": "assert pf.to_pandas().shape == (3, 2)",
        "polars reads Parquet": "assert pl.read_parquet('t.parquet').height == 3",
    },
    "one or two": {
        "pyarrow makes tables": "import pyarrow as pa\nassert pa.table({'a': [1, 2]}).num_rows == 2",
        "sqlite keeps a table": "import sqlite3\ncon = sqlite3.connect('t.db')\ndf.to_sql('t', con, index=False)\nassert pd.read_sql('SELECT sum(v) s FROM t', con).s[0] == 6",
        "xlsxwriter writes a workbook": "import xlsxwriter\nbook = xlsxwriter.Workbook('xw.xlsx')\nbook.add_worksheet().write('A1', 1)\nbook.close()",
        "xlrd is there for XLS": "import xlrd\nassert xlrd.__version__",
        "beautifulsoup parses": "from bs4 import BeautifulSoup\nassert BeautifulSoup('<p>x</p>', 'html.parser').p.text == 'x'",
        "beautifulsoup uses lxml": "assert BeautifulSoup('<p>x</p>', 'lxml').p.text == 'x'",
        "lxml finds by XPath": "from lxml import etree\nassert etree.fromstring('<a><b>1</b></a>').xpath('//b/text()') == ['1']",
        "yaml loads": "import yaml\nassert yaml.safe_load('a: [1, 2]') == {'a': [1, 2]}\nassert yaml.dump({'a': 1}) == 'a: 1\\n'",
        "toml loads": "import tomllib\nassert tomllib.loads('a = 1') == {'a': 1}",
        "jinja2 fills a template": "from jinja2 import Template\nassert Template('Hi {{ n }}').render(n='you') == 'Hi you'",
        "tabulate prints a table": "from tabulate import tabulate\nassert 'a' in tabulate([[1, 2]], headers=['a', 'b'], tablefmt='github')",
        "threads work": "from concurrent.futures import ThreadPoolExecutor\nassert list(ThreadPoolExecutor(2).map(abs, [-1, -2])) == [1, 2]",
        "graphviz draws": "import graphviz\ng = graphviz.Digraph()\ng.edge('a', 'b')\nassert 'a -> b' in g.source",
        "requests is there": "import requests\nassert requests.Request('GET', 'https://a.test', params={'q': 1}).prepare().url.endswith('?q=1')",
        "asyncio gathers": "import asyncio\nassert await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)) == [1, 2]",
        "dateutil parses": "from dateutil import parser\nassert parser.parse('3 May 2024').day == 3",
        "zoneinfo knows places": "from zoneinfo import ZoneInfo\nassert str(ZoneInfo('Asia/Tokyo')) == 'Asia/Tokyo'",
    },
    "duckdb": {
        "duckdb asks a DataFrame": "import duckdb\nassert duckdb.sql('SELECT sum(v) FROM df').fetchall() == [(6,)]",
        "duckdb asks a file": "assert duckdb.sql(\"SELECT count(*) FROM 't.csv'\").fetchall() == [(3,)]",
    },
    "scipy": {
        "scipy optimises": "from scipy.optimize import minimize\nassert abs(minimize(lambda x: (x[0] - 2) ** 2, [0]).x[0] - 2) < 1e-4",
        "scipy tests a hypothesis": "from scipy import stats\nassert 0 < stats.ttest_ind([1, 2, 3], [2, 3, 5]).pvalue < 1",
        "scipy integrates": "from scipy.integrate import quad\nassert abs(quad(lambda x: x * x, 0, 3)[0] - 9) < 1e-9",
        "scipy filters a signal": "from scipy import signal\nb, a = signal.butter(2, 0.2)\nassert len(signal.filtfilt(b, a, np.ones(50))) == 50",
        "scipy interpolates": "from scipy.interpolate import CubicSpline\nassert abs(CubicSpline([0, 1, 2], [0, 1, 4])(1.5) - 2.25) < 1e-9",
    },
    "sympy": {
        "sympy solves": "import sympy as sp\nx = sp.symbols('x')\nassert sp.solve(x**2 - 4, x) == [-2, 2]",
        "sympy integrates": "assert sp.integrate(sp.sin(x), (x, 0, sp.pi)) == 2",
    },
    "sklearn": {
        "sklearn classifies": "from sklearn.datasets import load_iris\nfrom sklearn.linear_model import LogisticRegression\nX, y = load_iris(return_X_y=True)\nassert LogisticRegression(max_iter=500).fit(X, y).score(X, y) > 0.9",
        "sklearn clusters": "from sklearn.cluster import KMeans\nassert set(KMeans(n_clusters=2, n_init=2, random_state=0).fit([[0], [0.1], [5], [5.1]]).labels_) == {0, 1}",
        "sklearn grows a forest in parallel": "from sklearn.ensemble import RandomForestClassifier\nassert RandomForestClassifier(20, n_jobs=2, random_state=0).fit(X, y).score(X, y) > 0.9",
        "sklearn searches a grid in parallel": "from sklearn.model_selection import GridSearchCV\nfrom sklearn.svm import SVC\nassert GridSearchCV(SVC(), {'C': [0.1, 1]}, cv=2, n_jobs=2).fit(X, y).best_params_",
        "sklearn makes a pipeline": "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.decomposition import PCA\nassert make_pipeline(StandardScaler(), PCA(2)).fit_transform(X).shape == (150, 2)",
        "sklearn counts words": "from sklearn.feature_extraction.text import TfidfVectorizer\nassert TfidfVectorizer().fit_transform(['a cat', 'a dog']).shape == (2, 2)",
    },
    "statsmodels": {
        "statsmodels regresses": "import statsmodels.api as sm\nassert sm.OLS([1, 2, 3], sm.add_constant([1, 2, 3])).fit().params[1] > 0.99",
        "statsmodels takes formulas": "import statsmodels.formula.api as smf\nassert smf.ols('v ~ k', df).fit().nobs == 3",
        "statsmodels decomposes a series": "from statsmodels.tsa.seasonal import seasonal_decompose\nassert len(seasonal_decompose(pd.Series(range(24), dtype=float), period=12).trend) == 24",
    },
    "networkx": {
        "networkx finds a path": "import networkx as nx\nassert nx.shortest_path(nx.path_graph(4), 0, 3) == [0, 1, 2, 3]",
        "networkx draws a graph": "nx.draw(nx.cycle_graph(4), with_labels=True)\nplt.savefig('g.png')\nplt.close('all')",
    },
    "matplotlib": {
        "matplotlib draws a plot": "fig, ax = plt.subplots()\nax.plot([1, 2])\nax.set_title('t')\nfig.savefig('p.png', dpi=50)\nplt.close(fig)",
        "matplotlib writes PDF and SVG": "plt.plot([1])\nplt.savefig('p.pdf')\nplt.savefig('p.svg')\nplt.close()",
        "matplotlib is asked for a backend": "import matplotlib\nmatplotlib.use('Agg')",
        "matplotlib labels in Chinese": "plt.title('销售额')\nplt.savefig('zh.png')\nplt.close()",
        "matplotlib is told a Chinese font": "plt.rcParams['font.sans-serif'] = ['SimHei']\nplt.title('数据')\nplt.savefig('zh.png')\nplt.close()\nplt.rcdefaults()",
        "matplotlib labels in Japanese and Korean": "plt.title('売上 매출')\nplt.savefig('ja.png')\nplt.close()",
        "matplotlib animates": "from matplotlib.animation import FuncAnimation\nfig, ax = plt.subplots()\nline, = ax.plot([0, 1])\nFuncAnimation(fig, lambda i: [line], frames=2).save('a.gif', writer='pillow')\nplt.close('all')",
        "matplotlib draws in three dimensions": "ax = plt.figure().add_subplot(projection='3d')\nax.plot_surface(*np.meshgrid([0, 1], [0, 1]), np.zeros((2, 2)))\nplt.savefig('3d.png')\nplt.close('all')",
    },
    "seaborn": {
        "seaborn sets a theme": "import seaborn as sns\nsns.set_theme()\nsns.barplot(df, x='k', y='v')\nplt.savefig('s.png')\nplt.close('all')",
        "seaborn draws a heatmap": "sns.heatmap(np.eye(3), annot=True)\nplt.close('all')",
    },
    "plotly": {
        "plotly makes a figure": "import plotly.express as px\nfig = px.line(df, x='k', y='v')\nassert len(fig.data) == 1",
        "plotly saves a picture": "fig.write_image('fig.png')\nassert open('fig.png', 'rb').read(4) == b'\\x89PNG'",
        "plotly saves a page": "fig.write_html('fig.html')\nassert 'plotly' in open('fig.html').read()[:100_000].lower()",
        "plotly makes subplots": "from plotly.subplots import make_subplots\nimport plotly.graph_objects as go\nsub = make_subplots(rows=1, cols=2)\nsub.add_trace(go.Bar(y=[1]), row=1, col=2)\nassert len(sub.data) == 1",
    },
    "pillow": {
        "pillow draws": "from PIL import Image, ImageDraw\nim = Image.new('RGB', (20, 20), 'white')\nImageDraw.Draw(im).line((0, 0, 19, 19), fill='red')\nim.save('i.png')",
        "pillow writes with a font": "from PIL import ImageFont\nassert ImageFont.truetype('wqy-microhei.ttc', 12).getlength('中文') > 10",
        "pillow filters": "from PIL import ImageFilter\nassert im.filter(ImageFilter.BLUR).size == (20, 20)",
    },
    "opencv": {
        "opencv finds edges": "import cv2\nassert cv2.Canny(np.zeros((8, 8), np.uint8), 50, 100).shape == (8, 8)",
        "opencv reads and writes": "cv2.imwrite('c.png', np.full((4, 4, 3), 9, np.uint8))\nassert cv2.imread('c.png')[0, 0, 0] == 9",
        "opencv changes colours": "assert cv2.cvtColor(cv2.imread('c.png'), cv2.COLOR_BGR2GRAY).ndim == 2",
    },
    "skimage": {
        "skimage labels regions": "from skimage import measure\nassert measure.label(np.array([[1, 0, 1]])).max() == 2",
        "skimage resizes": "from skimage.transform import resize\nassert resize(np.zeros((4, 4)), (2, 2)).shape == (2, 2)",
        "skimage filters": "from skimage import filters\nassert filters.sobel(np.eye(5)).shape == (5, 5)",
    },
    "openpyxl": {
        "openpyxl formats a workbook": "import openpyxl\nfrom openpyxl.styles import Font\nwb = openpyxl.Workbook()\nwb.active['A1'] = '=SUM(1, 2)'\nwb.active['A1'].font = Font(bold=True)\nwb.save('o.xlsx')",
        "openpyxl draws a chart": "from openpyxl.chart import BarChart, Reference\nchart = BarChart()\nchart.add_data(Reference(wb.active, min_col=1, min_row=1, max_row=1))\nwb.active.add_chart(chart, 'C3')\nwb.save('oc.xlsx')",
    },
    "python-docx": {
        "python-docx writes a document": "from docx import Document\ndoc = Document()\ndoc.add_heading('Report')\ndoc.add_table(rows=1, cols=2)\ndoc.save('d.docx')\nassert Document('d.docx').paragraphs[0].text == 'Report'",
        "python-docx places a picture": "from docx.shared import Inches\ndoc.add_picture('i.png', width=Inches(1))\ndoc.save('d.docx')",
    },
    "python-pptx": {
        "python-pptx writes slides": "from pptx import Presentation\np = Presentation()\ns = p.slides.add_slide(p.slide_layouts[0])\ns.shapes.title.text = 'Hi'\np.save('s.pptx')\nassert len(Presentation('s.pptx').slides) == 1",
    },
    "PDF": {
        "reportlab writes a PDF": "from reportlab.lib.pagesizes import A4\nfrom reportlab.pdfgen import canvas\nc = canvas.Canvas('r.pdf', pagesize=A4)\nc.drawString(100, 700, 'Hello')\nc.save()",
        "reportlab lays out a document": "from reportlab.platypus import SimpleDocTemplate, Paragraph, Table\nfrom reportlab.lib.styles import getSampleStyleSheet\nSimpleDocTemplate('l.pdf').build([Paragraph('Title', getSampleStyleSheet()['Title']), Table([[1, 2]])])",
        "reportlab embeds a Chinese font": "from reportlab.pdfbase import pdfmetrics\nfrom reportlab.pdfbase.ttfonts import TTFont\nimport matplotlib.font_manager as fm\npdfmetrics.registerFont(TTFont('wqy', fm.findfont('WenQuanYi Micro Hei')))\nc = canvas.Canvas('zh.pdf')\nc.setFont('wqy', 12)\nc.drawString(100, 700, '中文')\nc.save()",
        "fpdf2 writes a PDF": "from fpdf import FPDF\npdf = FPDF()\npdf.add_page()\npdf.set_font('helvetica', size=12)\npdf.cell(text='Hello')\npdf.output('f.pdf')",
        "pypdf reads text": "from pypdf import PdfReader\nassert 'Hello' in PdfReader('r.pdf').pages[0].extract_text()",
        "pypdf merges": "from pypdf import PdfWriter\nw = PdfWriter()\nw.append('r.pdf')\nw.append('l.pdf')\nw.write('m.pdf')\nassert len(PdfReader('m.pdf').pages) == 2",
        "pdfplumber reads text": "import pdfplumber\nwith pdfplumber.open('r.pdf') as f:\n    assert 'Hello' in f.pages[0].extract_text()",
        "pypdfium2 renders a page": "import pypdfium2\nassert pypdfium2.PdfDocument('r.pdf')[0].render(scale=0.2).to_pil().size[0] > 50",
    },
    "joblib": {
        "joblib works in parallel": "from joblib import Parallel, delayed\nassert Parallel(n_jobs=2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]",
        "joblib keeps a model": "import joblib\njoblib.dump({'a': 1}, 'm.joblib')\nassert joblib.load('m.joblib') == {'a': 1}",
        "joblib remembers": "memory = joblib.Memory('cache', verbose=0)\nassert memory.cache(abs)(-1) == 1",
    },
    "nltk": {
        "nltk splits without data": "import nltk\nfrom nltk.tokenize import wordpunct_tokenize\nassert wordpunct_tokenize('Hi, you.') == ['Hi', ',', 'you', '.']",
        "nltk finds stems": "from nltk.stem import PorterStemmer, SnowballStemmer\nassert PorterStemmer().stem('running') == SnowballStemmer('english').stem('running') == 'run'",
        "nltk counts": "assert nltk.FreqDist('abca').most_common(1) == [('a', 2)]\nassert nltk.edit_distance('ab', 'ac') == 1",
    },
    "psutil": {
        "psutil tells the memory": "import psutil\nassert psutil.virtual_memory().total > 0\nassert psutil.cpu_count() >= 1",
        "psutil tells the processor": "assert psutil.cpu_percent(interval=0.01) >= 0\nassert psutil.Process().memory_info().rss > 0",
    },
}  # fmt: skip
LOUD = {
    "a bar of tqdm goes to stderr": "from tqdm import tqdm\nassert sum(tqdm(range(3))) == 3",
    "so does that of a notebook": "from tqdm.auto import tqdm\nassert sum(tqdm(range(3), disable=True)) == 3",
}


@pytest.fixture
def box():
    with gb.Sandbox(limits=gb.Limits(wall_s=60, cpu_s=60)) as made:
        made.run(BEFORE).raise_for_error()
        yield made


@pytest.mark.parametrize("library", PROGRAMS)
def test_typical_programs_work_and_are_quiet(box, library):
    executions = {name: box.run(source) for name, source in PROGRAMS[library].items()}

    assert {name: (e.error, e.stderr) for name, e in executions.items() if (e.error, e.stderr) != (None, "")} == {}


@pytest.mark.parametrize("name", LOUD)
def test_a_typical_program_works(box, name):
    assert box.run(LOUD[name]).error is None
