"""Several losses by the laws of one chain, which is fitted for the first of them."""

import scoreprism


def decompose_losses(y_true, y_proba, X=None, *, losses, form="debiased", clip=None, **options):
    first, *others = losses
    d = scoreprism.decompose(y_true, y_proba, X, loss=first, form=form, clip=clip, **options)
    return {str(one.loss): one for one in (d, *(d.chain.decompose(loss, form, clip=clip) for loss in others))}
