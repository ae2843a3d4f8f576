/* Ranges have one element at most in ROS 2. */
#pragma once
#include <cstdint>
#include <string>
#include <vector>
namespace rcl_interfaces::msg
{
struct FloatingPointRange {
    double from_value = 0, to_value = 0, step = 0;
};
struct IntegerRange {
    std::int64_t from_value = 0, to_value = 0;
    std::uint64_t step = 0;
};
struct ParameterDescriptor {
    std::string name;
    std::uint8_t type = 0;
    std::string description, additional_constraints;
    bool read_only = false, dynamic_typing = false;
    std::vector<FloatingPointRange> floating_point_range;
    std::vector<IntegerRange> integer_range;
};
struct SetParametersResult {
    bool successful = false;
    std::string reason;
};
} // namespace rcl_interfaces::msg
