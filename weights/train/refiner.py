"""A network that corrects depth maps by what other frames show; model/refine/depth_refiner.h is the same in C++."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 4  # pixels of a frame, a side, that a pixel of the maps stands for
SOURCES = 6  # frames that it looks at, at most
CUES = 5  # of a source's depth, beside the groups of its features
# Of the depth's logarithm. One more is below 0 than above: where the truth is nearer, the relative error is larger.
OFFSETS = (-0.32, -0.2, -0.13, -0.085, -0.055, -0.035, -0.02, -0.01, 0.0, 0.01, 0.02, 0.035, 0.055, 0.085, 0.13, 0.2)
# model/refine/depth_refiner.cpp holds these, too.
WINDOWS = (9, 33)  # blocks a side, whose nearest and farthest depth a block may take; a pixel those of the first
MOST_OFF = 2.0  # the largest change of the logarithm by these
NONE = -13.8  # logarithms of depth that are less count as no depth
NEIGHBOURS = 9  # blocks of 3×3, whose depths a pixel is mixed of, with its own and the nearest and farthest around
CHOICES = NEIGHBOURS + 3
# What is added to the logarithms of shares, so that training begins with little change.
FOR_OWN, AGAINST_EXTREMES, AGAINST_EXTREME_BLOCKS = 4.0, -2.0, -4.0


@dataclasses.dataclass(frozen=True)
class Widths:
    """Channels: the program takes no wider ones (model/refine/depth_refiner.cpp)."""

    half: int = 24
    quarter: int = 48
    eighth: int = 64
    merged: int = 48
    matching: int = 24
    groups: int = 6  # of matching features
    hidden: int = 24
    scores: int = 9
    gathered: int = 64
    first: int = 48
    second: int = 64
    third: int = 96
    sharpened: int = 64


@dataclasses.dataclass
class Frames:
    """N frames: of each the camera as it was adjusted, and depth in the same unit."""

    images: Tensor  # [N,3,H,W] in [0,1]; H and W are multiples of BLOCK
    depth: Tensor  # [N,H,W]
    confidence: Tensor  # [N,H,W]
    extrinsic: Tensor  # [N,3,4]
    intrinsic: Tensor  # [N,3,3]

    def transfer(self, seen_from: Tensor, frame: Tensor) -> Tensor:
        """[M,3,4]: from the space of each of `frame` [M] to the pixels of `seen_from` [M]."""
        return self.intrinsic[seen_from] @ relative_pose(self.extrinsic[seen_from], self.extrinsic[frame])


class Pair(nn.Module):
    """Two 3×3 convolutions with ReLUs, the first with this stride."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))))


def resized(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, like.shape[-2:], mode="bilinear", align_corners=False)


def extremes(x: Tensor, none: Tensor, side: int) -> Tensor:
    """The least and the most of x [N,1,h,w] within side×side around each place, less x: [N,2,h,w].

    Where `none` [N,1,h,w] they are 0, and what lies there does not count elsewhere.
    """
    def most(x: Tensor) -> Tensor:
        x = F.max_pool2d(x.masked_fill(none, -torch.inf), (side, 1), 1, (side // 2, 0))
        return F.max_pool2d(x, (1, side), 1, (0, side // 2))

    return torch.cat([-most(-x) - x, most(x) - x], 1).clamp(-MOST_OFF, MOST_OFF).masked_fill(none, 0)


def around(x: Tensor) -> Tensor:
    """Of x [N,1,h,w] the 3×3 around each place, [N,1,9,h,w]; beyond the rim it repeats."""
    return F.unfold(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3).view(len(x), 1, NEIGHBOURS, *x.shape[-2:])


def inverse_intrinsic(k: Tensor) -> Tensor:
    """Of camera matrices [N,3,3] without skew."""
    fx, fy, cx, cy = k[:, 0, 0], k[:, 1, 1], k[:, 0, 2], k[:, 1, 2]
    one, zero = torch.ones_like(fx), torch.zeros_like(fx)
    rows = [1 / fx, zero, -cx / fx, zero, 1 / fy, -cy / fy, zero, zero, one]
    return torch.stack(rows, 1).view(-1, 3, 3)


def relative_pose(source: Tensor, reference: Tensor) -> Tensor:
    """[M,3,4] each, camera from world: from the reference's space to the source's, computed in fp64."""
    kind = source.dtype
    source, reference = source.double(), reference.double()
    turn = source[:, :, :3] @ reference[:, :, :3].mT
    return torch.cat([turn, source[:, :, 3:] - turn @ reference[:, :, 3:]], 2).to(kind)


class Refiner(nn.Module):
    def __init__(self, widths: Widths = Widths()):
        super().__init__()
        w = self.widths = widths
        self.register_buffer("offsets", torch.tensor(OFFSETS))
        depths, block_extremes = len(OFFSETS), 2 * len(WINDOWS)
        self.to_half = Pair(3, w.half, 2)
        self.to_quarter = Pair(w.half, w.quarter, 2)
        self.to_eighth = Pair(w.quarter, w.eighth, 2)
        self.from_eighth = nn.Conv2d(w.eighth, w.merged, 1)
        self.from_quarter = nn.Conv2d(w.quarter, w.merged, 1)
        self.matching = nn.Conv2d(w.merged, w.matching, 3, 1, 1)
        self.score_in = nn.Linear(w.groups + CUES, w.hidden)
        self.score_out = nn.Linear(w.hidden, w.scores)
        self.gather = nn.Conv2d(depths * w.scores, w.gathered, 1)
        self.enter = Pair(w.gathered + w.quarter + 2 + block_extremes, w.first)
        self.down = Pair(w.first, w.second, 2)
        self.deepest = Pair(w.second, w.third, 2)
        self.up = Pair(w.third + w.second, w.second)
        self.leave = Pair(w.second + w.first, w.first)
        self.change = nn.Conv2d(w.first, depths + 1 + block_extremes, 1)
        self.sharpen_in = nn.Conv2d(w.first + 4 * BLOCK * BLOCK, w.sharpened, 3, 1, 1)
        self.sharpen_out = nn.Conv2d(w.sharpened, BLOCK * BLOCK * CHOICES, 1)

    def initialise(self) -> "Refiner":
        """Weights to train from: it hardly changes anything, and features already tell places apart.

        With PyTorch's own the features of all places are nearly the same, and may stay so.
        """
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer is not self.sharpen_out:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="linear" if layer is self.matching else "relu")
                nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.to_half.first.weight *= 2  # images deviate by a quarter
            self.change.bias[0] = -4  # the offset that no other one balances
        nn.init.zeros_(self.change.weight)
        return self

    def look(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Context [N,c,h,w] of the frames, and what of them is compared, [N,m,h,w]."""
        context = self.to_quarter(self.to_half(images - 0.5))
        merged = self.from_quarter(context)
        merged = F.relu(merged + resized(self.from_eighth(self.to_eighth(context)), merged))
        grouped = self.matching(merged).unflatten(1, (self.widths.groups, -1))
        norm = torch.rsqrt(grouped.square().mean(2, keepdim=True) + 0.05)
        return context, (grouped * norm).flatten(1, 2)

    @torch.no_grad()
    def see(self, frames: Frames, middle: Tensor, references: Tensor, sources: Tensor):
        """Where the sources see the references' points at all depths.

        middle [N,h,w], references [R], sources [R,K] -> u, v in pixels, z and whether they lie within the frame, all
        [R,K,n,D].
        """
        H, W = frames.depth.shape[-2:]
        device = middle.device
        (R, K), (h, w) = sources.shape, middle.shape[-2:]
        rows, columns = (torch.arange(n, device=device, dtype=middle.dtype) * BLOCK + 1.5 for n in (h, w))
        v, u = torch.meshgrid(rows, columns, indexing="ij")
        rays = inverse_intrinsic(frames.intrinsic[references]) @ torch.stack([u, v, torch.ones_like(u)]).flatten(1)
        seen_from = sources.clamp_min(0).flatten()
        transfer = frames.transfer(seen_from, references.repeat_interleave(K)).view(R, K, 3, 4)
        turn, shift = transfer[..., :3], transfer[..., 3:, None]
        depth = (middle[references].flatten(1)[:, :, None] + self.offsets).exp()  # [R,n,D]
        points = (turn @ rays[:, None])[..., None] * depth[:, None, None] + shift  # [R,K,3,n,D]
        z = points[:, :, 2]
        u, v = points[:, :, 0] / z.clamp_min(1e-4), points[:, :, 1] / z.clamp_min(1e-4)
        inside = (z > 1e-3) & (u >= 0) & (u <= W - 1) & (v >= 0) & (v <= H - 1)
        return u, v, z, inside & (sources >= 0)[:, :, None, None]

    def forward(self, frames: Frames, references: Tensor, sources: Tensor) -> "Refined":
        """Depth of the frames `references` [R], each by its `sources` [R,K], of which -1 is none."""
        H, W = frames.depth.shape[-2:]
        (R, K), (h, w), D, w_ = sources.shape, (H // BLOCK, W // BLOCK), len(self.offsets), self.widths
        device = frames.depth.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else frames.depth.dtype
        logs = F.pixel_unshuffle(frames.depth.clamp_min(1e-6).log()[:, None], BLOCK)  # [N,16,h,w]
        middle = logs.median(1).values  # [N,h,w]
        # bf16 would make noise of the first layers' gradients, and move the points by pixels.
        with torch.autocast(device, enabled=False):
            context, matching = self.look(frames.images)
            u, v, z, inside = self.see(frames, middle, references, sources)
        grid = torch.stack([(u + 0.5) / W * 2 - 1, (v + 0.5) / H * 2 - 1], -1).clamp(-2, 2).flatten(0, 1)
        seen_from, m = sources.clamp_min(0).flatten(), inside.to(middle.dtype)
        # Features learn as those of references alone: the way back through those of sources takes the longest.
        there = matching.detach()[seen_from]
        warped = F.grid_sample(there, grid, align_corners=False).view(R, K, w_.groups, -1, h * w, D)
        own = matching[references].view(R, 1, w_.groups, -1, h * w, 1)
        alike = (warped * own).mean(3) * m[:, :, None]  # [R,K,G,n,D]
        with torch.no_grad():
            there = F.grid_sample(middle[seen_from][:, None], grid, mode="nearest", align_corners=False)
            nearer = z.clamp_min(1e-4).log() - there.view(R, K, h * w, D)
            moves = ((u[..., -1:] - u[..., :1]).square() + (v[..., -1:] - v[..., :1]).square()).sqrt()
            moves = (moves.clamp(0.01, 100).log() / 4).expand_as(u)
            agreement = [(-(nearer / width).square()).exp() * m for width in (0.02, 0.08)]
            cues = torch.stack([*agreement, (nearer / 0.2).clamp(-1, 1) * m, m, moves * m], 2)
        # Channels are padded to a multiple of eight, which makes products fast. An added one is 1 and takes the bias.
        rest = m.new_zeros(()).expand(R, K, -(w_.groups + CUES + 1) % 8, h * w, D)
        x = torch.cat([alike.to(kind), cues.to(kind), torch.ones_like(m, dtype=kind)[:, :, None], rest.to(kind)], 2)
        layer = torch.cat([self.score_in.weight, self.score_in.bias[:, None]], 1)
        layer = F.pad(layer, (0, rest.shape[2])).to(kind).expand(R * K, -1, -1)
        x = F.relu(torch.bmm(layer, x.flatten(0, 1).flatten(2)))  # [RK,hidden,nD]
        x = torch.bmm(self.score_out.weight.to(kind).expand(R * K, -1, -1), x)
        x = (x + self.score_out.bias[:, None].to(kind)).view(R, K, w_.scores, h * w, D)
        weight = torch.sigmoid(x[:, :, :1]) * m[:, :, None].to(kind)
        total = weight.sum(1)
        said = torch.cat([(x[:, :, 1:] * weight).sum(1) / (total + 0.1), total / SOURCES], 1)  # [R,scores,n,D]
        x = F.relu(self.gather(said.permute(0, 1, 3, 2).reshape(R, -1, h, w)))
        near = middle[references][:, None]  # [R,1,h,w]
        trusted = (frames.confidence[references].clamp_min(1.0001) - 1).log().clamp(-6, 8) / 4
        trusted = F.avg_pool2d(trusted[:, None], BLOCK)
        place = near - near.mean((2, 3), keepdim=True)
        none = near < NONE
        reach = torch.cat([extremes(near, none, side) for side in WINDOWS], 1)
        x = torch.cat([x, *(t.to(kind) for t in (context[references], place, trusted, reach))], 1)
        entered = self.enter(x)
        down = self.down(entered)
        up = self.up(torch.cat([resized(self.deepest(down), down), down], 1))
        left = self.leave(torch.cat([resized(up, entered), entered], 1))
        answer = self.change(left).to(near.dtype)
        offsets = torch.cat([self.offsets.view(1, -1, 1, 1).expand(R, D, h, w), reach], 1)
        likely = torch.cat([answer[:, :D], answer[:, D + 1 :] + AGAINST_EXTREME_BLOCKS], 1).softmax(1)
        change = (likely * offsets).sum(1, keepdim=True) + 0.3 * torch.tanh(0.3 * answer[:, D : D + 1])  # [R,1,h,w]
        blocks = near + change
        detail = ((logs[references] - near) * 10).clamp(-3, 3)
        image = F.pixel_unshuffle(frames.images[references] - 0.5, BLOCK)
        shares = self.sharpen_out(F.relu(self.sharpen_in(torch.cat([left, image.to(kind), detail.to(kind)], 1))))
        shares = shares.to(near.dtype).view(R, BLOCK * BLOCK, CHOICES, h, w)
        of_blocks, of_own, of_ends = shares.split([NEIGHBOURS, 1, 2], 2)
        of_blocks = of_blocks.masked_fill(around(none.to(near.dtype)) > 0, -torch.inf)
        of_ends = (of_ends + AGAINST_EXTREMES).masked_fill(none[:, None], -torch.inf)
        shares = torch.cat([of_blocks, of_own + FOR_OWN, of_ends], 2).softmax(2)
        own = (logs[references] + change)[:, :, None]  # [R,16,1,h,w]
        ends = (blocks + extremes(blocks, none, WINDOWS[0]))[:, None]  # [R,1,2,h,w]
        choices = torch.cat([t.expand(-1, BLOCK * BLOCK, -1, -1, -1) for t in (around(blocks), own, ends)], 2)
        sharp = F.pixel_shuffle((shares * choices).sum(2), BLOCK)[:, 0]
        return Refined(sharp, blocks[:, 0], near[:, 0], alike.mean(2), m)


@dataclasses.dataclass
class Refined:
    logs: Tensor  # [R,H,W] of the corrected depth
    blocks: Tensor  # [R,h,w] the same before pixels are told apart
    given: Tensor  # [R,h,w] as it was
    alike: Tensor  # [R,K,n,D] how alike features are at each depth
    inside: Tensor  # [R,K,n,D] 1 where the source sees the point, else 0
