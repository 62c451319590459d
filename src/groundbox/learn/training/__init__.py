"""Fine-tuning of a model's folder on a dataset's folder, with libraries of the extra `train`.

In: the chats of a dataset (`chats`), a model of transformers that is here (`base`), and how to train (`recipe`).
Out: a folder with the tuned model, its card (`card`), its losses, and while it is trained, checkpoints (`checkpoints`).
`run` holds these together, and is the file to open first; it and `trainer`, which alone imports torch, do the work.
"""
