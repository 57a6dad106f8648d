"""Say of the file that the prompt names how long it is, and how long its longest function."""

import re
import sys
from pathlib import Path

from measures import longest_function

prompt = sys.stdin.read()
name = next((word for word in re.findall(r"[\w./-]+\.py", prompt) if Path(word).is_file()), None)
if name is None:
    sys.exit("the prompt names no Python file that is here")
text = Path(name).read_text(encoding="utf-8")
function, length = longest_function(text)
print(f"{name} has {len(text.splitlines())} lines; its longest function, {function}, has {length}.")
