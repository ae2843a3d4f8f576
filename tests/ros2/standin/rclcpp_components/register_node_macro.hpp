#pragma once
#define RCLCPP_COMPONENTS_REGISTER_NODE(type) static_assert(sizeof(type) > 0, #type);
