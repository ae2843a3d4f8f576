"""test_packages.py ROOT: the ROS 2 packages can be read, and code, launch file and README name the
same parameters with the same defaults."""
import ast
import os
import re
import sys
import xml.etree.ElementTree

HERE = os.path.join(sys.argv[1], "ros2")


def text(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


for package in ("fovea_msgs", "fovea_node"):
    tree = xml.etree.ElementTree.fromstring(text(package + "/package.xml"))
    assert tree.findtext("name") == package
    depends = {e.text for e in tree if e.tag.endswith("depend")}
    found = set(re.findall(r"find_package\((\w+)", text(package + "/CMakeLists.txt"))) - {"Fovea"}
    assert found <= depends, found - depends

code = dict(re.findall(r'declare_parameter<[\w:]+>\("(\w+)", "?([^")]*)"?\)',
                       text("fovea_node/src/node.cpp")))
rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", text("README.md").split("| parameter")[1], re.M)
readme = {name: standard.strip(" `") for name, standard in rows}
launch = next(ast.literal_eval(re.sub(r"\b(str|int)\b", "0", ast.unparse(node.value)))
              for node in ast.parse(text("fovea_node/launch/fovea.launch.py")).body
              if isinstance(node, ast.Assign) and node.targets[0].id == "ARGUMENTS")
launch = {name: pair[0] for name, pair in launch.items()}
assert code and code == launch == readme, (code, launch, readme)
