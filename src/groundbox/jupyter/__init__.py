"""Jupyter's kernels: cells of a notebook in one sandbox.

`kernel.py` is a kernel whatever carries its messages, `zeromq.py` carries them as JupyterLab and nbclient do
(`groundbox jupyter kernel`), and the server does by WebSocket (`server/wires/jupyter.py`). `kernelspec.py` tells
notebooks that there is such a kernel.
"""
