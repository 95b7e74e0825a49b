"""Where samples come from: rows at hand, files, a generator of samples, a stream.

Step t's samples depend on (seed, t) alone, so a result does not depend on how a run is cut into chunks and a resumed
run equals an uninterrupted one. A sampler opens into `Draws`, which prepares many steps' samples in one vectorised
call before the compiled loop: a random number drawn inside the loop costs more than the step itself. For rows, what is
prepared is indices; the loop looks the rows up.
"""

from tightrope.sampling.generator import Generator as Generator
from tightrope.sampling.parquet import Parquet as Parquet
from tightrope.sampling.rows import Rows as Rows
from tightrope.sampling.rows import as_sampler as as_sampler
from tightrope.sampling.sampler import Buffer as Buffer
from tightrope.sampling.sampler import Draws as Draws
from tightrope.sampling.sampler import Plan as Plan
from tightrope.sampling.sampler import Sampler as Sampler
from tightrope.sampling.stream import Stream as Stream
