import os
import sys

os.environ.setdefault("TESSERA_STORE", "off")  # tests must not fill the user's folder

sys.path.insert(0, os.path.dirname(__file__))
