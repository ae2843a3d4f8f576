/* A component is made of options alone, and is a node. */
#pragma once
#include <type_traits>

#include <rclcpp/rclcpp.hpp>
#define RCLCPP_COMPONENTS_REGISTER_NODE(type)                                                      \
    static_assert(std::is_constructible_v<type, const rclcpp::NodeOptions &>, #type);              \
    static_assert(std::is_base_of_v<rclcpp::Node, type>, #type);
