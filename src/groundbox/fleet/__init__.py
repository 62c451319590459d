"""Fleet: several machines that each run `groundbox serve`, behind gateways that clients ask as they ask one server.

In go requests of clients, and joins of nodes; out come their replies, from the node that has room or that a sandbox
lives on. Open `gateway.py` first; `member.py` is the same from a node's side, `catalogue.py` what all gateways know.
"""
