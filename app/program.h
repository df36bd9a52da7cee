#pragma once

/// The whole program: what main() does beyond help. Returns the exit status, and prints what failed.
extern "C" int vggt_recon_main(int argc, char** argv);
