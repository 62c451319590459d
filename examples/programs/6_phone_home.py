"""A program that wants the network: it has none, unless the host that it names was allowed."""

# %%
import urllib.request

print("asking for a page …")
urllib.request.urlopen("http://example.org/", timeout=5).read()
