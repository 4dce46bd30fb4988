"""The transformer and its components. Tensors carry their shape in their name; one legend for all files.

====== =============================================== ====== ==========================================
letter meaning                                         letter meaning
====== =============================================== ====== ==========================================
B      batch                                           H      head width
T      time: query positions                           F      feed-forward width
S      source: key positions (S = T without a cache)   V      vocabulary
D      model width                                     M      rows: tokens of a batch in one line, B × T
N      query heads                                     C      rows of one chunk of M
K      key/value heads                                 G      query heads that share a key/value head, N / K
A      key/value heads of a batch in one line, B × K   R      rows that share keys, G × T
L      latent of keys and values (MLA)                 J      distances from queries back to keys
P      pairs of a rotation, of sine and cosine
====== =============================================== ====== ==========================================

So ``q_BTNH`` is a query tensor of shape (batch, time, heads, head width). Parameters named ``weight`` are drawn
by the ``init`` component, keyed by their full name; every other parameter (gains, biases, scalars) keeps the
value its module gives it. A matrix that writes to the residual stream is called ``out``. Names are neutral to
the architecture, since pairing of runs goes by name: ``blocks.3.attn.q.weight`` is the same tensor in every
variant in which it has the same shape.
"""
