"""Models behind OpenAI's chat completions: `chat.ChatApi` asks them, `answer` reads what comes back.

Conversations and translations both go through it, so that they bear the same trouble and name it in the same words.
"""
