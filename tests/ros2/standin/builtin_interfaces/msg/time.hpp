#pragma once
#include <cstdint>
namespace builtin_interfaces::msg
{
struct Time {
    std::int32_t sec = 0;
    std::uint32_t nanosec = 0;
};
} // namespace builtin_interfaces::msg
