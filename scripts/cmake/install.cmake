# package config: see scripts/cmake
