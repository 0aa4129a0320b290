//! Matrices that the invocations of a subgroup multiply together: the shapes that kernels are written for.

/// A product of an M x K matrix and a K x N matrix, added to an M x N matrix of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatrixShape {
    /// M, N, K = 8, 8, 8 with factors of f32. Apple7 and later.
    F32M8N8K8,
    /// M, N, K = 8, 8, 8 with factors of f16. Apple7 and later.
    F16M8N8K8,
    /// M, N, K = 8, 8, 16 with factors of f16. Intel Xe-HPG.
    F16M8N8K16,
    /// M, N, K = 8, 16, 16 with factors of f16. Intel Xe2.
    F16M8N16K16,
    /// M, N, K = 16, 16, 16 with factors of f16. AMD RDNA3 and later, NVIDIA.
    F16M16N16K16,
}

impl MatrixShape {
    /// Every shape.
    pub const ALL: [MatrixShape; 5] = [
        MatrixShape::F32M8N8K8,
        MatrixShape::F16M8N8K8,
        MatrixShape::F16M8N8K16,
        MatrixShape::F16M8N16K16,
        MatrixShape::F16M16N16K16,
    ];

    /// Returns M, N and K.
    pub const fn extents(self) -> [u32; 3] {
        match self {
            MatrixShape::F32M8N8K8 | MatrixShape::F16M8N8K8 => [8, 8, 8],
            MatrixShape::F16M8N8K16 => [8, 8, 16],
            MatrixShape::F16M8N16K16 => [8, 16, 16],
            MatrixShape::F16M16N16K16 => [16, 16, 16],
        }
    }

    /// Returns true if the factors are f16.
    pub const fn is_f16(self) -> bool {
        !matches!(self, MatrixShape::F32M8N8K8)
    }

    /// Returns `f16 16x16x16` and the like: the type of the factors, M, N and K.
    pub const fn name(self) -> &'static str {
        match self {
            MatrixShape::F32M8N8K8 => "f32 8x8x8",
            MatrixShape::F16M8N8K8 => "f16 8x8x8",
            MatrixShape::F16M8N8K16 => "f16 8x8x16",
            MatrixShape::F16M8N16K16 => "f16 8x16x16",
            MatrixShape::F16M16N16K16 => "f16 16x16x16",
        }
    }
}

/// A set of shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MatrixShapes(u8);

impl MatrixShapes {
    /// No shape.
    pub const NONE: MatrixShapes = MatrixShapes(0);

    /// Returns the set with `shape` in it.
    #[must_use]
    pub const fn with(self, shape: MatrixShape) -> MatrixShapes {
        MatrixShapes(self.0 | 1 << shape as u8)
    }

    /// Returns whether `shape` is in the set.
    pub const fn has(self, shape: MatrixShape) -> bool {
        self.0 & 1 << shape as u8 != 0
    }

    /// Returns whether the set has no shape.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the shapes of the set.
    pub fn iter(self) -> impl Iterator<Item = MatrixShape> {
        MatrixShape::ALL.into_iter().filter(move |shape| self.has(*shape))
    }
}

impl FromIterator<MatrixShape> for MatrixShapes {
    fn from_iter<I: IntoIterator<Item = MatrixShape>>(shapes: I) -> MatrixShapes {
        shapes.into_iter().fold(MatrixShapes::NONE, MatrixShapes::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_shapes_that_it_was_made_of() {
        for shape in MatrixShape::ALL {
            let set = MatrixShapes::NONE.with(shape);
            assert!(set.has(shape) && !set.is_empty());
            assert!(set.iter().eq([shape]));
        }
        let all: MatrixShapes = MatrixShape::ALL.into_iter().collect();
        assert!(all.iter().eq(MatrixShape::ALL));
        assert!(MatrixShapes::default().is_empty());
    }

    #[test]
    fn names_say_the_extents() {
        for shape in MatrixShape::ALL {
            let [m, n, k] = shape.extents();
            let factors = if shape.is_f16() { "f16" } else { "f32" };
            assert_eq!(shape.name(), format!("{factors} {m}x{n}x{k}"));
        }
    }
}
