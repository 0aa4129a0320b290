// Metal has its own simd types here, which no kernel uses: everything is in metal_stdlib.
#pragma once
