"""test_packages.py ROOT: the files of the ROS 2 packages are valid; code, launch file and README name the same
parameters with the same defaults; README and code name the same topics; messages have the same fields as the mock
messages of the tests."""
import ast
import os
import re
import sys
import xml.etree.ElementTree

HERE = os.path.join(sys.argv[1], "ros2")
STANDIN = os.path.join(sys.argv[1], "tests", "ros2", "standin")


def text(*name):
    with open(os.path.join(*name), encoding="utf-8") as file:
        return file.read()


for package in ("fovea_msgs", "fovea_node"):
    tree = xml.etree.ElementTree.fromstring(text(HERE, package, "package.xml"))
    assert tree.findtext("name") == package
    depends = {e.text for e in tree if e.tag.endswith("depend")}
    found = set(re.findall(r"find_package\((\w+)", text(HERE, package, "CMakeLists.txt")))
    assert found - {"Fovea", "Python3", "Threads"} <= depends, found - depends

SOURCES = os.path.join(HERE, "fovea_node", "src")
listed = set(re.findall(r"src/(\w+\.cpp)", text(HERE, "fovea_node", "CMakeLists.txt")))
assert listed == {name for name in os.listdir(SOURCES) if name.endswith(".cpp")}, listed

# ---- parameters ----
code = {name: standard.strip('" ') for name, standard in re.findall(
    r'\b(?:text|number|share)\(node, "(\w+)",\s*("[^"]*"|[\d.]+)', text(SOURCES, "settings.cpp"))}
readme = text(HERE, "README.md")
rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", readme.split("| parameter")[1], re.M)
told = {name: standard.strip(" `") for name, standard in rows}
launch = next(ast.literal_eval(re.sub(r"\b(str|int|float)\b", "0", ast.unparse(node.value)))
              for node in ast.parse(text(HERE, "fovea_node/launch/fovea.launch.py")).body
              if isinstance(node, ast.Assign) and node.targets[0].id == "ARGUMENTS")
launch = {name: pair[0] for name, pair in launch.items()}
assert len(code) == 14 and code == launch == told, (code, launch, told)

# ---- topics ----
topics = {name for source in ("results.cpp", "diagnostics.cpp") for name in re.findall(
    r'create_publisher<[\w:]+>\("([^"]+)"', text(SOURCES, source))}
assert topics == set(re.findall(r"^\| `([~/][^`]*)`", readme, re.M)), topics

# ---- messages ----
TYPES = {"string": "std::string", "uint32": "std::uint32_t", "float32": "float", "float32[]": "std::vector<float>",
         "std_msgs/Header": "std_msgs::msg::Header", "fovea_msgs/KeyPoint[]": "std::vector<fovea_msgs::msg::KeyPoint>"}
for name in os.listdir(os.path.join(HERE, "fovea_msgs", "msg")):
    fields = re.findall(r"^(?!#)(\S+) (\w+)", text(HERE, "fovea_msgs/msg", name), re.M)
    header = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[:-4]).lower() + ".hpp"
    struct = re.search(r"struct %s {(.*?)};" % name[:-4], text(STANDIN, "fovea_msgs/msg", header), re.S).group(1)
    assert [(TYPES[kind], field) for kind, field in fields] == re.findall(
        r"^\s*(\S+) (\w+)(?: = 0)?;", struct, re.M), name
    assert "msg/" + name in text(HERE, "fovea_msgs", "CMakeLists.txt")
