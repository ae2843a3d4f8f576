"""A container with the component, whose parameters are launch arguments."""
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import ComposableNodeContainer
from launch_ros.descriptions import ComposableNode
from launch_ros.parameter_descriptions import ParameterValue

ARGUMENTS = {
    "model": ("", str),
    "device": ("cpu", str),
    "attention": ("", str),
    "output": ("", str),
    "size": ("", str),
    "compute": ("auto", str),
    "threads": ("0", int),
    "yuv": ("auto", str),
    "labels": ("", str),
    "mask_rule": ("auto", str),
    "image_transport": ("raw", str),
    "top_k": ("5", int),
    "score": ("0.3", float),
    "mask_score": ("0.0", float),
}


def generate_launch_description():
    parameters = {name: ParameterValue(LaunchConfiguration(name), value_type=kind)
                  for name, (_, kind) in ARGUMENTS.items()}
    node = ComposableNode(package="fovea_node", plugin="fovea_ros::Node", name="fovea",
                          parameters=[parameters],
                          remappings=[("image", LaunchConfiguration("image"))],
                          extra_arguments=[{"use_intra_process_comms": True}])
    container = ComposableNodeContainer(name="fovea_container", namespace="",
                                        package="rclcpp_components",
                                        executable="component_container",
                                        composable_node_descriptions=[node])
    declared = [DeclareLaunchArgument(name, default_value=standard)
                for name, (standard, _) in ARGUMENTS.items()]
    declared.append(DeclareLaunchArgument("image", default_value="image"))
    return LaunchDescription(declared + [container])
