"""From runs to statistics and figures."""
