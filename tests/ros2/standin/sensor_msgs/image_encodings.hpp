#pragma once
namespace sensor_msgs::image_encodings
{
const char MONO8[] = "mono8";
const char TYPE_16UC1[] = "16UC1";
const char TYPE_32FC1[] = "32FC1";
} // namespace sensor_msgs::image_encodings
