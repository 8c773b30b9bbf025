"""Compares the sources with the OpenAPI document: each method makes the call of its name, and each type has what the contract has.

It needs no Swift, so that a change of the contract is noticed everywhere.
"""

import glob
import json
import os
import re
import unittest
from typing import Any, Dict, List, Set

with open(os.environ["FANFARE_OPENAPI"]) as file:
    DOCUMENT = json.load(file)
SCHEMAS = DOCUMENT["components"]["schemas"]
SOURCE = ""
for name in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../Sources/Fanfare/*.swift"))):
    with open(name) as file:
        SOURCE += file.read()

# What the types are called in the document, if their names differ.
NAMES: Dict[str, List[str]] = {
    "Message": ["ChatMessage", "StreamMessage"],
    "MessageSent": ["ChatMessageSent"],
    "Messages": ["ChatMessages"],
    "PendingMessages": ["PendingChats"],
    "Chat": ["PendingChat"],
    "Redacted": ["StreamRedacted"],
    "Gap": ["StreamGap"],
    "Stock": ["Availability"],
    "Acked": ["Acks"],
    "Item": ["SaleItem"],
    "Document": ["Problem"],
    "Page": ["UserTopicList", "UserChatList"],
}


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name)


def resolve(schema: Dict[str, Any]) -> Dict[str, Any]:
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rsplit("/", 1)[1]]
    return schema


def fields(body: str) -> Dict[str, bool]:
    """The stored properties of a struct, and whether they may be absent. Nested types are left out."""
    while True:
        flat = re.sub(r"(?ms)^( *)(?:public |private )?(?:struct|init|enum)\b[^\n]*\{\n.*?^\1\}\n", "", body)
        if flat == body:
            return {snake(name): kind.endswith("?") for name, kind in re.findall(r"(?m)^ *(?:public )?let (\w+): ([^\n=]+?)(?: = .*)?$", body)}
        body = flat


class Contract(unittest.TestCase):
    def test_each_method_makes_the_call_of_its_name(self) -> None:
        operations = {o["operationId"]: (m.upper(), p) for p, ms in DOCUMENT["paths"].items() for m, o in ms.items()}
        found: Set[str] = set()
        for method in re.finditer(r"(?ms)^    public func (\w+)\(.*?^    \}", SOURCE):
            call = re.search(r'(?:"(GET|PUT|POST|DELETE)", |stream\()"(/v1/[^"]+)"', method[0])
            if method[1] == "call":
                continue
            self.assertIsNotNone(call, method[1])
            self.assertEqual((call[1] or "GET", call[2]), operations.get(method[1]), method[1])
            names = set(re.findall(r"\{(\w+)\}", call[2])) - {"user"}
            given = re.search(r"(?:params: |, )\[((?:\"\w+\": [\w(). ]+,? ?)+)\]", method[0])
            self.assertEqual(set(re.findall(r'"(\w+)":', given[1])) if given and names else set(), names, method[1])
            found.add(method[1])
        self.assertGreater(len(found), 20)

    def test_queries_are_those_of_the_contract(self) -> None:
        for method in re.finditer(r"(?ms)^    public func (\w+)\(.*?^    \}", SOURCE):
            query = re.search(r"(?s)(?:let query: \[String: String\?\] = |query: )\[(.*?)\n? *\](?:\)|\n)", method[0])
            if query is None or method[1] == "call":
                continue
            _, operation = next((p, o) for p, ms in DOCUMENT["paths"].items() for o in ms.values() if o["operationId"] == method[1])
            known = {p["name"] for p in operation["parameters"] if p["in"] == "query"}
            self.assertLessEqual(set(re.findall(r'"(\w+)": ', query[1])), known, method[1])

    def test_types_have_what_the_contract_has(self) -> None:
        checked = 0
        for struct in re.finditer(r"(?ms)^( *)(?:public |private )?struct (\w+)(?:<[^\n]*>)?: ([^{]*)\{\n(.*?)^\1\}", SOURCE):
            if not re.search(r"\b(?:Decodable|Codable)\b", struct[3]):
                continue
            for name in NAMES.get(struct[2], [struct[2]]):
                schema = SCHEMAS["Reservation"]["properties"]["lines"]["items"] if struct[2] == "Line" else SCHEMAS[name]
                schema = resolve(schema)
                for field, optional in fields(struct[4]).items():
                    if name == "ChatMessage" and field == "chat":
                        continue
                    self.assertIn(field, schema["properties"], struct[2])
                    if not optional:
                        self.assertIn(field, schema["required"], f"{struct[2]}: an answer may lack it")
                    checked += 1
        self.assertGreater(checked, 50)

    def test_bodies_are_those_of_the_contract(self) -> None:
        checked = 0
        for method in re.finditer(r"(?ms)^    public func (\w+)\(.*?^    \}", SOURCE):
            body = re.search(r"(?s)struct Body: Encodable \{ ?(.*?)\n? *\}", method[0])
            if body is None:
                continue
            operation = next(o for ms in DOCUMENT["paths"].values() for o in ms.values() if o["operationId"] == method[1])
            schema = resolve(operation["requestBody"]["content"]["application/json"]["schema"])
            own = set(re.findall(r"let (\w+)", body[1]))
            self.assertLessEqual({snake(name) for name in own}, set(schema["properties"]), method[1])
            self.assertLessEqual(set(schema.get("required", [])), {snake(name) for name in own}, method[1])
            checked += 1
        self.assertEqual(checked, 7)


if __name__ == "__main__":
    unittest.main()
